// bug: an array in local memory goes through two functions, and the second overruns it
// expect: rule=local-out-of-bounds-write function=put size=48
#include "case.h"

__device__ __noinline__ void put(int *slots, int at, int value) {
    slots[at] = value;  // BUG
}

__device__ __noinline__ int spread(int *slots, int n, int value) {
    for (int i = 0; i < n; i++) put(slots + 4, i, value + i);
    return slots[n];
}

__global__ void run(int *out, int n) {
    int front[8], slots[12], back[8];
    for (int i = 0; i < 12; i++) slots[i] = i;
    for (int i = 0; i < 8; i++) front[i] = back[i] = out[threadIdx.x] + i;
    int sum = spread(slots, n, threadIdx.x);
    for (int i = 0; i < 8; i++) sum += front[(i + n) % 8] * back[(i * n) % 8];
    out[threadIdx.x] = sum + slots[n];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    run<<<1, 32>>>(out, 8 + bad);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(out));
}
