// bug: one launch of thousands overruns one of its buffers, when the checker was long chosen by measurement
// expect: rule=canary-overwritten kernel=count argument=h at=0 size=64
// run: launch-backtraces=20000 canary-checker=auto
// notes: canaries-by-host canaries-by-device
#include "case.h"

static const char *source =
    "kernel void count(global int *a, global int *b, global int *c, global int *d, global int *e, global int *f,\n"
    "                  global int *g, global int *h, int end) {\n"
    "    a[0]++; b[1]++; c[2]++; d[3]++; e[4]++; f[5]++; g[6]++; h[end] = a[0];\n"
    "}\n";

int main(int count, char **arguments) {
    int bad = is_bad(count, arguments), last = 15, past = 16;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "count");
    cl_mem buffers[8];
    int zero[16] = {0}, result[16];
    for (int i = 0; i < 8; i++) {
        buffers[i] = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, zero);
        ARGUMENT(kernel, i, buffers[i]);
    }
    size_t global = 1;
    for (int launch = 1; launch <= 12000; launch++) {
        OK(clSetKernelArg(kernel, 8, sizeof(int), bad && launch == 11999 ? &past : &last));
        OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
        if (launch % 100 == 0) OK(clFinish(c.queue));
    }
    OK(clEnqueueReadBuffer(c.queue, buffers[7], CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    printf("%d\n", result[15]);
    for (int i = 0; i < 8; i++)
        OK(clReleaseMemObject(buffers[i]));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
