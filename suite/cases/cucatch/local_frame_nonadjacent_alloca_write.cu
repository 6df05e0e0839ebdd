// bug: an index jumps over the next array of the same frame into a third: a write (alloca)
// category: local-oob
// expect: rule=local-out-of-bounds-write function=walk size=64
#include "case.h"

__device__ int walk(int seed, int index, int pick, int count) {
    int *last = static_cast<int *>(alloca(count * sizeof(int)));
    int *after = static_cast<int *>(alloca(count * sizeof(int)));
    int *buffer = static_cast<int *>(alloca(count * sizeof(int)));
    for (int i = 0; i < count; i++) {
        buffer[i] = seed + i;
        after[i] = seed * i;
        last[i] = seed - i;
    }
    buffer[index] = 7;  // BUG
    return buffer[pick] + after[pick] + last[pick];
}

__global__ void walk_all(int *out, int index, int pick, int count) {
    out[threadIdx.x] = walk(threadIdx.x, index, pick, count);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    walk_all<<<1, 32>>>(out, bad ? 36 : 15, 3, 16);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
