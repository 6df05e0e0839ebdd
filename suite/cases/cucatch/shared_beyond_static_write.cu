// bug: a static shared array is the block's only one, and the index lies past it: a write
// category: shared-oob
// expect: rule=shared-out-of-bounds-write function=fill size=128
#include "case.h"

__global__ void fill(int *out, int offset) {
    __shared__ int tile[32];
    int i = threadIdx.x;
    tile[i] = i * i;
    __syncthreads();
    tile[i + offset] = -i;  // BUG
    __syncthreads();
    out[i] = tile[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    fill<<<1, 32>>>(out, bad ? 4096 : 0);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
