// bug: a block's base pointer is handed round through shared memory
// expect: rule=global-out-of-bounds-write function=tile_fill size=1004
#include "case.h"

__global__ void tile_fill(int *out, int n, int tile) {
    __shared__ int *base;
    if (threadIdx.x == 0) base = out + blockIdx.x * tile;
    __syncthreads();
    int i = blockIdx.x * tile + threadIdx.x;
    if (i < n)
        base[threadIdx.x] = i;  // BUG
}

int main() {
    const int n = 251;
    int *out = zeroed<int>(n);
    tile_fill<<<4, 64>>>(out, n + bad, 64);
    FINISH();
    print_digest("out", out, n);
}
