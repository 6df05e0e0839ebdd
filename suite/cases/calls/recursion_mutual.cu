// bug: two functions that call each other run past a local array
// expect: rule=local-out-of-bounds-read function=even size=64
#include "case.h"

__device__ int odd(const int *values, int n);

__device__ __noinline__ int even(const int *values, int n) {
    if (n <= 0) return 0;
    return values[0] + odd(values + 1, n - 1);  // BUG
}

__device__ __noinline__ int odd(const int *values, int n) {
    if (n <= 0) return 0;
    return -values[0] + even(values + 1, n - 1);
}

__global__ void alternate(int *out, int n, int pick) {
    int values[16];
    int others[16];
    for (int i = 0; i < 16; i++) values[i] = i * threadIdx.x, others[i] = i;
    out[threadIdx.x] = even(values, n) + others[pick];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    alternate<<<1, 32>>>(out, bad ? 17 : 16, 5);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(out));
}
