// bug: an atomic that is meant for shared counters gets the end of a local array
// expect: rule=local-out-of-bounds-atomic function=bump size=64
#include "case.h"

__device__ __noinline__ void bump(int *counters, int i) {
    atomicAdd(counters + i, 1);  // BUG
}

__global__ void count(int *out, int use_local, int pick) {
    __shared__ int shared_counters[16];
    int own[16];
    for (int i = 0; i < 16; i++) own[i] = i;
    if (threadIdx.x < 16) shared_counters[threadIdx.x] = 0;
    __syncthreads();
    if (use_local)
        bump(own, 16);
    else
        bump(shared_counters, threadIdx.x % 16);
    __syncthreads();
    out[threadIdx.x] = shared_counters[threadIdx.x % 16] + own[pick];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    count<<<1, 32>>>(out, bad, 3);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
