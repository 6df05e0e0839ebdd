// bug: behind a kernel that gets a buffer of another context, which not every platform refuses, a kernel overruns
// expect: rule=canary-overwritten kernel=add argument=data at=0 size=256
#include "case.h"

static const char *source = "kernel void add(global int *data, int n) { if (get_global_id(0) < n) data[get_global_id(0)] += 1; }\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 65 : 64, enough = 64, start[64] = {0}, result[64];
    Case c = open_case(source);
    cl_int code;
    cl_context other = clCreateContext(NULL, 1, &c.device, NULL, NULL, &code);
    OK(code);
    cl_command_queue theirs = clCreateCommandQueue(other, c.device, 0, &code);
    OK(code);
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof start, start);
    cl_mem foreign = clCreateBuffer(other, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof start, start, &code);
    OK(code);
    size_t global = 80;
    ARGUMENT(kernel, 1, enough);
    code = clSetKernelArg(kernel, 0, sizeof foreign, &foreign);
    if (code == CL_SUCCESS)
        code = clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL);
    OK(clFinish(c.queue));
    printf("%d\n", code);
    OK(clEnqueueReadBuffer(theirs, foreign, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 64);
    ARGUMENT(kernel, 0, data);
    ARGUMENT(kernel, 1, n);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 64);
    OK(clReleaseMemObject(data));
    OK(clReleaseMemObject(foreign));
    OK(clReleaseKernel(kernel));
    OK(clReleaseCommandQueue(theirs));
    OK(clReleaseContext(other));
    close_case(&c);
    return 0;
}
