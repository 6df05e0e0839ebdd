// bug: a static shared array is overrun into the dynamic shared memory: a write
// category: shared-oob
// expect: rule=shared-out-of-bounds-write function=fill size=128
#include "case.h"

__global__ void fill(int *out, int offset) {
    __shared__ int tile[32];
    extern __shared__ int pool[];
    int i = threadIdx.x;
    tile[i] = i * i;
    pool[31 - i] = i;
    __syncthreads();
    tile[i + offset] = -i;  // BUG
    __syncthreads();
    out[i] = tile[31 - i] + pool[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    fill<<<1, 32, 32 * sizeof(int)>>>(out, bad ? 32 : 0);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
