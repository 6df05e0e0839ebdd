// bug: a kernel is launched behind the free of its memory in the same stream
// expect: rule=use-after-free function=twice size=1000
#include "case.h"

__global__ void twice(int *data, int *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] += data[i] * 2;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *data = nullptr, *out = zeroed<int>(n);
    CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
    CHECK(cudaMemsetAsync(data, 1, n * sizeof(int), stream));
    if (bad) CHECK(cudaFreeAsync(data, stream));
    twice<<<1, 256, 0, stream>>>(data, out, n);
    CHECK(cudaGetLastError());
    if (!bad) CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) print_digest("out", out, n);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
