// bug: an index past the whole stack of the thread: a write
// category: local-oob
// expect: rule=local-out-of-bounds-write function=walk size=64
#include "case.h"

__device__ int walk(int seed, int index, int pick) {
    int buffer[16];
    for (int i = 0; i < 16; i++) {
        buffer[i] = seed + i;
    }
    buffer[index] = 7;  // BUG
    return buffer[pick];
}

__global__ void walk_all(int *out, int index, int pick) {
    out[threadIdx.x] = walk(threadIdx.x, index, pick);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    walk_all<<<1, 32>>>(out, bad ? 1 << 20 : 15, 3);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
