// bug: the third level of a recursion overruns its own array
// expect: rule=local-out-of-bounds-write function=descend size=32
#include "case.h"

__device__ __noinline__ int descend(int depth, int index) {
    int path[8];
    for (int i = 0; i < 8; i++) path[i] = depth * 10 + i;
    path[depth == 3 ? index : depth] = 5;  // BUG
    int below = depth < 5 ? descend(depth + 1, index) : 0;
    return below + path[depth % 8] + path[7];
}

__global__ void start(int *out, int index) { out[threadIdx.x] = descend(threadIdx.x % 2, index); }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    start<<<1, 32>>>(out, 7 + 2 * bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
