// bug: built with -G: one of two arrays in shared memory that are exchanged is overrun into the third
// build: flags=-G
// expect: rule=shared-out-of-bounds-write function=smooth
#include "case.h"

// (A function that returns a struct: the compiler keeps the pointers in the frame.)
__global__ void smooth(float2 *out, int n) {
    __shared__ float2 even[64], odd[64], sums[64];
    sums[threadIdx.x] = even[threadIdx.x] = odd[threadIdx.x] = make_float2(threadIdx.x, 2);
    __syncthreads();
    float2 *from = even, *to = odd;
    for (int round = 0; round < 2; round++) {
        for (int i = threadIdx.x; i < n; i += 64)
            to[i] = make_float2(from[i & 63].x + 1, from[i & 63].y);  // BUG
        __syncthreads();
        float2 *other = from;
        from = to;
        to = other;
    }
    out[threadIdx.x] = sums[threadIdx.x];
    out[threadIdx.x].x += from[threadIdx.x].y;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float2 *out = zeroed<float2>(64);
    smooth<<<1, 64>>>(out, 64 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 64);
    CHECK(cudaFree(out));
}
