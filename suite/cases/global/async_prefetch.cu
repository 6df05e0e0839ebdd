// bug: a loop that prefetches rows ahead reads one row too many
// build: arch=90
// expect: rule=global-out-of-bounds-read function=sum size=4096
#include "case.h"

// Prefetches are hints: they may name what is past the end, or nowhere.
__global__ void sum(const int *in, int rows, int *out) {
    int total = 0;
    for (int row = 0; row < rows; row++) {
        const int *next = in + (row + 2) * 32;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(next));
        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(next + 4096));
        asm volatile("prefetchu.L1 [%0];" ::"l"(next));
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], 8192;" ::"l"(next) : "memory");
        asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(next));
        total += in[row * 32 + threadIdx.x];  // BUG
    }
    out[threadIdx.x] = total;
}

int main() {
    int *in = upload(counting<int>(1024)), *out = zeroed<int>(32);
    sum<<<1, 32>>>(in, 32 + bad, out);
    FINISH();
    if (!bad) print_digest("out", out, 32);
}
