// bug: the host copies from memory that a stream, which it has not waited for, frees
// expect: rule=use-after-free call=cuMemcpyDtoH size=1000
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *data = nullptr, *out = zeroed<int>(n);
    CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
    CHECK(cudaMemsetAsync(data, 1, n * sizeof(int), stream));
    mix<<<1, 256, 0, stream>>>(data, out, n);
    CHECK(cudaGetLastError());
    if (bad) CHECK(cudaFreeAsync(data, stream));
    std::vector<int> host(n);
    TRY(cudaMemcpy(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost));  // BUG
    if (!bad) CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
    print_digest("out", out, n);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
