// bug: memory from a pool of the program's own is written past its end
// expect: rule=global-out-of-bounds-write function=fill size=1000
#include "case.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *first = nullptr, *second = nullptr;
    CHECK(cudaMallocFromPoolAsync(&first, n * sizeof(int), pool, stream));
    CHECK(cudaMallocFromPoolAsync(&second, n * sizeof(int), pool, stream));
    fill<<<1, 256, 0, stream>>>(first, n + bad);
    CHECK(cudaGetLastError());
    CHECK(cudaFreeAsync(first, stream));
    CHECK(cudaFreeAsync(second, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaMemPoolDestroy(pool));
}
