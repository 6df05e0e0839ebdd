// bug: two kernels of three overrun the same buffer at the same place, each must answer for itself
// expect: rule=canary-overwritten kernel=first argument=a at=3
// expect: rule=canary-overwritten kernel=third argument=c at=3
#include "case.h"

static const char *source =
    "kernel void first(global uchar *a, int n) { a[get_global_id(0)] = 0x11; if (n > 1003) a[1006] = 1; }\n"
    "kernel void second(global uchar *b, int n) { b[get_global_id(0) % n] += 1; }\n"
    "kernel void third(global uchar *c, int n) { if (n > 1003) c[1006] = 1; }\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 1004 : 1003, own = 1003;
    unsigned char result[1003];
    Case c = open_case(source);
    cl_mem buffer = buffer_of(&c, CL_MEM_READ_WRITE, 1003, NULL);
    const char *names[3] = {"first", "second", "third"};
    size_t global = 1003;
    cl_kernel kernels[3];
    // All are enqueued before the first look at a canary can have been made.
    for (int i = 0; i < 3; i++) {
        kernels[i] = kernel_of(&c, names[i]);
        ARGUMENT(kernels[i], 0, buffer);
        if (i == 1)
            ARGUMENT(kernels[i], 1, own);
        else
            ARGUMENT(kernels[i], 1, n);
        OK(clEnqueueNDRangeKernel(c.queue, kernels[i], 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    }
    OK(clEnqueueReadBuffer(c.queue, buffer, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    printf("%d %d\n", result[0], result[1002]);
    for (int i = 0; i < 3; i++)
        OK(clReleaseKernel(kernels[i]));
    OK(clReleaseMemObject(buffer));
    close_case(&c);
    return 0;
}
