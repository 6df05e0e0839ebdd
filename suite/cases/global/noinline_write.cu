// bug: a not inlined function writes through a pointer into the middle of a buffer
// expect: rule=global-out-of-bounds-write function=store_pair size=512
#include "case.h"

__device__ __noinline__ void store_pair(int *at, int value) {
    at[0] = value;
    at[1] = -value;  // BUG
}

__global__ void pairs(int *out, int n) {
    int i = threadIdx.x;
    if (i < n) store_pair(out + 2 * i, i);
}

int main() {
    const int n = 128;
    int *out = zeroed<int>(n);
    // The bad twin starts the last pair at the last element.
    pairs<<<1, 64>>>(out, n / 2 - bad);
    if (bad) pairs<<<1, 1>>>(out + n - 1, 1);
    FINISH();
    print_digest("out", out, n - 2);
}
