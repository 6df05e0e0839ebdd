// bug: a recursion that never ends overflows the stack of its thread
// expect: rule=kernel-failed kernel=_Z5depthPii
#include "failed.h"

__device__ __noinline__ int down(volatile int *steps, int left) {  // BUG
    int here[64];
    for (int i = 0; i < 64; i++) here[i] = steps[0] + i;
    if (left == 0) return here[63];
    return down(steps, left - 1) + here[left & 63];  // BUG
}

__global__ void depth(int *out, int steps) {
    *out = down(out, steps);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
    int *out = zeroed<int>(1);
    // 16 frames fit, the other number never comes to zero.
    depth<<<1, 1>>>(out, bad ? -1 : 16);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaSuccess);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaFree(out));
}
