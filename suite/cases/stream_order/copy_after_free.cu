// bug: an asynchronous copy is issued behind the free of its source in the same stream
// expect: rule=use-after-free call=cuMemcpy size=1000
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
    int *data = nullptr, *out = zeroed<int>(n);
    CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
    fill<<<1, 256, 0, stream>>>(data, n);
    CHECK(cudaGetLastError());
    if (bad) CHECK(cudaFreeAsync(data, stream));
    TRY(cudaMemcpyAsync(out, data, n * sizeof(int), cudaMemcpyDeviceToDevice, stream));  // BUG
    if (!bad) CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) print_digest("out", out, n);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
