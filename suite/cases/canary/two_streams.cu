// bug: of two kernels in two streams one writes past the end of its own buffer
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z6secondPii argument=0 at=4 size=2000
#include "case.h"

__global__ void first(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}

__global__ void second(int *out, int more) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 500) out[i] = -i;
    if (i == 501 && more) out[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 500;
    int *a = zeroed<int>(n), *b = zeroed<int>(n);
    cudaStream_t streams[2];
    for (auto &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 20; round++) {
        first<<<2, 256, 0, streams[0]>>>(a, n);
        second<<<2, 256, 0, streams[1]>>>(b, bad && round == 10);
        CHECK(cudaGetLastError());
    }
    for (auto &stream : streams) CHECK(cudaStreamSynchronize(stream));
    print_digest("a", a, n);
    print_digest("b", b, n);
    for (auto &stream : streams) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}
