// bug: a function of the host that was enqueued with buffers overruns one of them
// expect: rule=canary-overwritten call=clEnqueueNativeKernel size=256
#include "case.h"

static const char *source = "kernel void add(global int *data) { data[get_global_id(0)] += 1; }\n";

typedef struct {
    char first;
    const int *from;
    double factor;
    int *to;
    int count;
} Work;

static void CL_CALLBACK work(void *data) {
    Work *work = data;
    for (int i = 0; i < work->count; i++)
        work->to[i] = (int)(work->factor * work->from[i % 64]);
}

static void CL_CALLBACK nothing(void *data) { (void)data; }

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 66 : 64, start[64], result[64];
    for (int i = 0; i < 64; i++)
        start[i] = i;
    Case c = open_case(source);
    cl_device_exec_capabilities able = 0;
    OK(clGetDeviceInfo(c.device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof able, &able, NULL));
    NEEDS(able & CL_EXEC_NATIVE_KERNEL, "native kernels");
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem from = buffer_of(&c, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof start, start);
    cl_mem to = buffer_of(&c, CL_MEM_READ_WRITE, sizeof start, NULL);
    size_t global = 64;
    ARGUMENT(kernel, 0, to);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    cl_mem objects[] = {from, to};
    Work given = {'x', NULL, 2.5, NULL, n};
    const void *places[] = {&given.from, &given.to};
    OK(clEnqueueNativeKernel(c.queue, work, &given, sizeof given, 2, objects, places, 0, NULL, NULL)); // BUG
    OK(clEnqueueNativeKernel(c.queue, nothing, NULL, 0, 0, NULL, NULL, 0, NULL, NULL));
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, to, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 64);
    OK(clReleaseMemObject(from));
    OK(clReleaseMemObject(to));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
