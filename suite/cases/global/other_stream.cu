// bug: the overrun happens in a second, non-blocking stream
// expect: rule=global-out-of-bounds-write function=slow_fill size=2000
#include "case.h"

__global__ void slow_fill(int *out, int n, int value) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = value + i;  // BUG
}

int main() {
    const int n = 500;
    int *first = zeroed<int>(n), *second = zeroed<int>(n);
    cudaStream_t streams[2];
    for (auto &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    slow_fill<<<1, 64, 0, streams[0]>>>(first, n, 1);
    slow_fill<<<1, 64, 0, streams[1]>>>(second, n + bad, 2);
    CHECK(cudaGetLastError());
    for (auto &stream : streams) {
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    }
    print_digest("first", first, n);
    print_digest("second", second, n);
}
