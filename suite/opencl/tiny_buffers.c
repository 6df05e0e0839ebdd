// bug: one of five thousand buffers of a few bytes each is overrun, and all are released in between
// expect: rule=canary-overwritten kernel=touch argument=data at=0
// run: launch-backtraces=10000
#include "case.h"

static const char *source = "kernel void touch(global uchar *data, int n) {\n"
                            "    for (int i = 0; i < n; i++) data[i] = i + n;\n"
                            "}\n";

enum { BUFFERS = 5000 };

int main(int count, char **arguments) {
    int bad = is_bad(count, arguments);
    static cl_mem buffers[BUFFERS];
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "touch");
    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = buffer_of(&c, CL_MEM_READ_WRITE, 1 + i % 7, NULL);
    size_t global = 1;
    int sum = 0;
    for (int i = 0; i < BUFFERS; i++) {
        int n = 1 + i % 7 + (bad && i == 3210);
        ARGUMENT(kernel, 0, buffers[i]);
        ARGUMENT(kernel, 1, n);
        OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
        unsigned char last = 0;
        if (i % 500 == 0) OK(clEnqueueReadBuffer(c.queue, buffers[i], CL_TRUE, i % 7, 1, &last, 0, NULL, NULL));
        sum += last;
        OK(clReleaseMemObject(buffers[i]));
    }
    OK(clFinish(c.queue));
    printf("%d\n", sum);
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
