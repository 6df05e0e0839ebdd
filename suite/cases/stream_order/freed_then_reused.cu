// bug: a kernel in a second stream still uses memory that the pool has given to another allocation
// expect: rule=use-after-free function=add size=1024
#include "case.h"

__global__ void add(int *data, int n, int value) {
    int i = threadIdx.x;
    if (i < n) data[i] += value;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 256;
    cudaStream_t first, second;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    int *old = nullptr, *fresh = nullptr;
    CHECK(cudaMallocAsync(&old, n * sizeof(int), first));
    CHECK(cudaMemsetAsync(old, 0, n * sizeof(int), first));
    CHECK(cudaStreamSynchronize(first));
    if (bad) CHECK(cudaFreeAsync(old, first));
    CHECK(cudaMallocAsync(&fresh, n * sizeof(int), first));
    CHECK(cudaMemsetAsync(fresh, 0, n * sizeof(int), first));
    CHECK(cudaStreamSynchronize(first));
    add<<<1, n, 0, second>>>(old, n, 7);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(second));
    std::vector<int> host(n);
    CHECK(cudaMemcpy(host.data(), fresh, n * sizeof(int), cudaMemcpyDeviceToHost));
    std::printf("fresh %016llx\n", digest_bytes(host.data(), n * sizeof(int)));
    CHECK(cudaFreeAsync(fresh, first));
    if (!bad) CHECK(cudaFreeAsync(old, first));
    CHECK(cudaStreamSynchronize(first));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}
