// bug: whole vectors of four are stored to a length that is no multiple of four (Parboil's mri-gridding)
// expect: rule=canary-overwritten kernel=splitRearrange argument=keys_o at=0 size=396
// expect: rule=canary-overwritten kernel=splitRearrange argument=values_o at=0 size=396
#include "case.h"

static const char *source = "kernel void splitRearrange(int n, global uint *keys_o, global uint *values_o) {\n"
                            "    uint i = get_global_id(0);\n"
                            "    if (4 * i >= n) return;\n"
                            "    vstore4((uint4)(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3), i, keys_o);\n"
                            "    vstore4((uint4)(i), i, values_o);\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = 99;
    size_t room = (is_bad(count, arguments) ? n : (n + 3) / 4 * 4) * sizeof(cl_uint);
    int result[99];
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "splitRearrange");
    cl_mem keys = buffer_of(&c, CL_MEM_READ_WRITE, room, NULL);
    cl_mem values = buffer_of(&c, CL_MEM_READ_WRITE, room, NULL);
    ARGUMENT(kernel, 0, n);
    ARGUMENT(kernel, 1, keys);
    ARGUMENT(kernel, 2, values);
    size_t global = 128;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clFinish(c.queue));
    OK(clEnqueueReadBuffer(c.queue, keys, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, n);
    OK(clReleaseMemObject(keys));
    OK(clReleaseMemObject(values));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
