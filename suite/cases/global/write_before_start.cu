// bug: a compaction counts down one step too far
// expect: rule=global-out-of-bounds-write function=fill_backwards size=512
#include "case.h"

__global__ void fill_backwards(short *out, int n, int stop) {
    int i = n - 1 - static_cast<int>(threadIdx.x);
    if (i >= stop)
        out[i] = static_cast<short>(i);  // BUG
}

int main() {
    const int n = 256;
    short *out = zeroed<short>(n);
    fill_backwards<<<1, 512>>>(out, n, -bad);
    FINISH();
    print_digest("out", out, n);
}
