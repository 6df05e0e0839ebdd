// bug: memory of the stream-ordered allocator is written past its end
// expect: rule=global-out-of-bounds-write function=fill size=1000
#include "case.h"

__global__ void fill(int *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = i;  // BUG
}

int main() {
    const int n = 250;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *first = nullptr, *second = nullptr;
    CHECK(cudaMallocAsync(&first, n * sizeof(int), stream));
    CHECK(cudaMallocAsync(&second, n * sizeof(int), stream));
    CHECK(cudaMemsetAsync(second, 0, n * sizeof(int), stream));
    fill<<<1, 64, 0, stream>>>(first, n + bad);
    CHECK(cudaGetLastError());
    std::vector<int> host(n);
    CHECK(cudaMemcpyAsync(host.data(), first, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::printf("first %016llx\n", digest_bytes(host.data(), n * sizeof(int)));
    print_digest("second", second, n);
    CHECK(cudaFreeAsync(first, stream));
    CHECK(cudaFreeAsync(second, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}
