// bug: the host writes past the end of what it has mapped; the kernel that runs next must not be blamed
// expect: rule=canary-overwritten call=clEnqueueUnmapMemObject size=1024
#include "case.h"

static const char *source = "kernel void add(global int *data) { data[get_global_id(0)] += 1; }\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 257 : 256, result[256] = {0};
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof result, result);
    ARGUMENT(kernel, 0, data);
    size_t global = 256;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    cl_int code;
    volatile int *mapped =
        clEnqueueMapBuffer(c.queue, data, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, sizeof result, 0, NULL, NULL, &code);
    OK(code);
    for (int i = 0; i < n; i++)
        mapped[i] = 2 * i;
    OK(clEnqueueUnmapMemObject(c.queue, data, (void *)mapped, 0, NULL, NULL)); // BUG
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 256);
    OK(clReleaseMemObject(data));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
