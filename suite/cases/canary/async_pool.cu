// bug: a kernel writes past the end of a buffer that was allocated in its stream
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z5countPii argument=0 at=96 size=4000
#include "case.h"

__global__ void count(int *out, int more) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) out[i] = i;
    if (i == 1000 && more) out[i + 24] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 1000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<int> host(n);
    int digest = 0;
    // Memory goes from one round to the next.
    for (int round = 0; round < 4; round++) {
        int *out = nullptr;
        CHECK(cudaMallocAsync(&out, n * sizeof(int), stream));
        count<<<4, 256, 0, stream>>>(out, bad && round == 2);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(host.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(out, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    for (int value : host) digest += value;
    std::printf("digest %d\n", digest);
    CHECK(cudaStreamDestroy(stream));
}
