// bug: a __device__ array is indexed with its own length
// expect: rule=global-out-of-bounds-read function=look_up size=256
#include "case.h"

__device__ int before[16];
__device__ int table[64];
__device__ int after[16];

__global__ void look_up(const int *keys, int *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] = table[keys[i]];  // BUG
    if (i < 16) before[i] = after[i] = i;
}

int main() {
    const int n = 64;
    std::vector<int> values = counting<int>(64);
    CHECK(cudaMemcpyToSymbol(table, values.data(), sizeof(int) * 64));
    std::vector<int> keys(n);
    for (int i = 0; i < n; i++) keys[i] = 63 - i;
    if (bad) keys[0] = 64;
    int *out = zeroed<int>(n);
    look_up<<<1, 64>>>(upload(keys), out, n);
    FINISH();
    print_digest("out", out + 1, n - 1);
}
