// bug: a recursion through pointers to functions runs past a shared array
// expect: rule=shared-out-of-bounds-read function=down size=64
#include "case.h"

struct Walk;
typedef int (*Go)(const int *values, int n, Walk walk);
struct Walk {
    Go next;
    int step;
};

__device__ __noinline__ int down(const int *values, int n, Walk walk) {
    const int own = *values;  // BUG
    return n == 1 ? own : own + walk.next(values + walk.step, n - 1, walk);
}

__device__ __noinline__ int stop(const int *values, int n, Walk) { return n; }

__global__ void walk(int *out, int n, int stops) {
    __shared__ int values[16];
    __shared__ int others[16];
    if (threadIdx.x < 16) values[threadIdx.x] = others[threadIdx.x] = threadIdx.x;
    __syncthreads();
    Walk walk = {stops ? stop : down, 1};
    out[threadIdx.x] = down(values, n, walk) + others[threadIdx.x & 15];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    walk<<<1, 32>>>(out, bad ? 17 : 16, 0);
    walk<<<1, 32>>>(out, 17, 1);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
