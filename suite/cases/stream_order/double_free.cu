// bug: a pool allocation is freed in its stream and again at the end
// expect: rule=double-free call=cuMemFree size=1000
#include "case.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *data = nullptr;
    CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
    fill<<<1, 256, 0, stream>>>(data, n);
    CHECK(cudaGetLastError());
    CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (bad) TRY(cudaFreeAsync(data, stream));  // BUG
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}
