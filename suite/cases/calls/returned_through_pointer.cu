// bug: a function that is called through a pointer returns one into another shared array
// expect: rule=shared-out-of-bounds-write function=mark size=128
#include "case.h"

typedef int *(*Row)(int *table, int y);

__device__ __noinline__ int *row_of_8(int *table, int y) { return table + 8 * y; }
__device__ __noinline__ int *row_of_16(int *table, int y) { return table + 16 * y; }
__device__ Row rows[2] = {row_of_8, row_of_16};

__global__ void mark(int *out, int which, int y) {
    __shared__ int table[32];
    __shared__ int others[32];
    table[threadIdx.x] = others[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x < 8) rows[which](table, y)[threadIdx.x] = 7;  // BUG
    __syncthreads();
    out[threadIdx.x] = table[threadIdx.x] + 2 * others[31 - threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    mark<<<1, 32>>>(out, bad, 3);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(out));
}
