// bug: a kernel writes past the end of a buffer that was allocated in its stream
// run: protect=shadow
// expect: rule=global-out-of-bounds-write function=fill size=3000000
#include "case.h"

__global__ void fill(int *data, int n, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = value;  // BUG
}

__global__ void last(const int *data, int n, int *out) { out[0] += data[n - 1 - threadIdx.x % 32]; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 750000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *out = zeroed<int>(1);
    CHECK(cudaDeviceSynchronize());
    // Memory goes from one round to the next; nothing is waited for.
    for (int round = 0; round < 6; round++) {
        int *data = nullptr;
        CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
        fill<<<8, 256, 0, stream>>>(data, n + (bad && round == 4), round);
        last<<<1, 1, 0, stream>>>(data, n, out);
        CHECK(cudaFreeAsync(data, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
