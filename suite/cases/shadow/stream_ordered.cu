// bug: a kernel writes past the end of a small buffer that was allocated in its stream
// run: protect=shadow
// expect: rule=global-out-of-bounds-write function=fill size=400
#include "case.h"

__global__ void fill(int *data, int n, int value) {
    int i = threadIdx.x;
    if (i < n) data[i] = value;  // BUG
}

__global__ void add(const int *data, int n, int *out) { out[0] += data[n - 1]; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams) CHECK(cudaStreamCreate(&stream));
    int *out = zeroed<int>(2);
    CHECK(cudaDeviceSynchronize());
    // Memory goes from one round to the next, while kernels run.
    for (int round = 0; round < 200; round++) {
        cudaStream_t stream = streams[round % 2];
        const int n = round == 150 ? 100 : 64 + round % 40;
        int *data = nullptr;
        CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
        fill<<<1, 128, 0, stream>>>(data, n + (bad && round == 150), round);
        add<<<1, 1, 0, stream>>>(data, n, out + round % 2);
        CHECK(cudaFreeAsync(data, stream));
    }
    FINISH();
    print_digest("out", out, 2);
    for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
