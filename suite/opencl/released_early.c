// bug: a program releases its buffers while a kernel still uses and overruns one of them
// expect: rule=canary-overwritten kernel=slow argument=out at=0 size=4000
#include "case.h"

static const char *source = "kernel void slow(global float *out, global float *other, int n, int rounds) {\n"
                            "    int i = get_global_id(0);\n"
                            "    float x = i;\n"
                            "    for (int r = 0; r < rounds; r++) x = x * 1.000001f + 0.5f;\n"
                            "    if (i < n) out[i] = x;\n"
                            "    if (i == 0) other[0] = x;\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 1001 : 1000, rounds = 20000;
    float host[16] = {0};
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "slow");
    cl_mem out = buffer_of(&c, CL_MEM_READ_WRITE, 4000, NULL);
    cl_mem other = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof host, host);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, other);
    ARGUMENT(kernel, 2, n);
    ARGUMENT(kernel, 3, rounds);
    size_t global = 1024;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clReleaseMemObject(out));
    OK(clReleaseMemObject(other));
    OK(clReleaseKernel(kernel));
    OK(clReleaseProgram(c.program));
    OK(clFlush(c.queue));
    cl_command_queue queue = c.queue;
    OK(clReleaseContext(c.context));
    OK(clFinish(queue));
    OK(clReleaseCommandQueue(queue));
    printf("done\n");
    return 0;
}
