// bug: a kernel writes two ints before the start of a buffer
// expect: rule=canary-overwritten kernel=shift argument=out at=-1 size=1024
#include "case.h"

static const char *source = "kernel void shift(global const int *in, global int *out, int by) {\n"
                            "    int i = get_global_id(0);\n"
                            "    out[i - by] = in[i];\n"
                            "}\n";

int main(int count, char **arguments) {
    int by = is_bad(count, arguments) ? 2 : 0;
    int data[256], result[256];
    for (int i = 0; i < 256; i++)
        data[i] = 7 * i + 5;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "shift");
    cl_mem in = buffer_of(&c, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof data, data);
    cl_mem out = buffer_of(&c, CL_MEM_WRITE_ONLY, sizeof data, NULL);
    ARGUMENT(kernel, 0, in);
    ARGUMENT(kernel, 1, out);
    ARGUMENT(kernel, 2, by);
    size_t global = 256;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 254);
    OK(clReleaseMemObject(in));
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
