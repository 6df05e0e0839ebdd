// bug: a function whose pointer lies in shared memory reads the array behind its own
// expect: rule=shared-out-of-bounds-read function=far size=64
#include "case.h"

typedef int (*Read)(const int *values, int i);

__device__ __noinline__ int near(const int *values, int i) { return values[i]; }

__device__ __noinline__ int far(const int *values, int i) {
    return values[i + 8];  // BUG
}

__global__ void read(int *out, int which, int last) {
    __shared__ Read reads[2];
    __shared__ int values[16];
    __shared__ int others[16];
    if (threadIdx.x == 0) {
        reads[which] = near;
        reads[1 - which] = far;
    }
    values[threadIdx.x] = threadIdx.x;
    others[threadIdx.x] = 50 - threadIdx.x;
    __syncthreads();
    const int i = min(int(threadIdx.x), last);
    out[threadIdx.x] = reads[threadIdx.x & 1](values, i) + others[15 - threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(16);
    read<<<1, 16>>>(out, 0, bad ? 15 : 7);
    FINISH();
    print_digest("out", out, bad ? 7 : 16);
    CHECK(cudaFree(out));
}
