// bug: a callee overruns its array into the frame of its caller: a read
// category: local-oob
// expect: rule=local-out-of-bounds-read function=callee size=64
#include "case.h"

__device__ __noinline__ int callee(int seed, int index, int pick) {
    int buffer[16];
    for (int i = 0; i < 16; i++) buffer[i] = seed + i;
    int value = buffer[index];  // BUG
    return value + buffer[0];
}

// Its own array is what lies behind the callee's.
__global__ void caller(int *out, int index, int pick) {
    int own[16];
    for (int i = 0; i < 16; i++) own[i] = i * i;
    int value = callee(threadIdx.x, index, pick);
    out[threadIdx.x] = value + own[pick];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    caller<<<1, 32>>>(out, bad ? 24 : 15, 3);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
