// bug: a kernel writes one int past the end of a buffer
// expect: rule=canary-overwritten kernel=fill argument=out at=0 size=4000
#include "case.h"

static const char *source = "kernel void fill(int n, global int *out) {\n"
                            "    int i = get_global_id(0);\n"
                            "    if (i < n) out[i] = 3 * i;\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = 1000, limit = is_bad(count, arguments) ? n + 1 : n;
    static int result[1000];
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "fill");
    cl_mem out = buffer_of(&c, CL_MEM_READ_WRITE, n * sizeof(int), NULL);
    ARGUMENT(kernel, 0, limit);
    ARGUMENT(kernel, 1, out);
    size_t global = 1024;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, n);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
