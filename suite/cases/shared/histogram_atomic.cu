// bug: a value one too large is counted in a shared histogram
// expect: rule=shared-out-of-bounds-atomic function=histogram size=256
#include "case.h"

__global__ void histogram(const int *values, int *counts, int n) {
    __shared__ int bins[64];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        atomicAdd(&bins[values[i]], 1);  // BUG
    __syncthreads();
    counts[threadIdx.x] = bins[threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 500;
    std::vector<int> host(n);
    for (int i = 0; i < n; i++) host[i] = i * 7 % 64;
    host[333] = 63 + bad;
    int *values = upload(host);
    int *counts = zeroed<int>(64);
    histogram<<<1, 64>>>(values, counts, n);
    FINISH();
    print_digest("counts", counts, 64);
    CHECK(cudaFree(values));
    CHECK(cudaFree(counts));
}
