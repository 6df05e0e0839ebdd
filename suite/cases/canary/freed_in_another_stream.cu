// bug: a kernel writes past a buffer that another stream frees behind it, and that a third gets
// run: protect=canary canary-budget=100
// expect: rule=canary-overwritten kernel=_Z5countPii argument=0 at=0 size=4000
#include "case.h"

__global__ void count(int *out, int n) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 1000;
    cudaStream_t first, second;
    cudaEvent_t done;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    for (int round = 0; round < 50; round++) {
        int *out = nullptr;
        CHECK(cudaMallocAsync(&out, n * sizeof(int), first));
        count<<<4, 256, 0, first>>>(out, n + (bad && round == 10));
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(done, first));
        CHECK(cudaStreamWaitEvent(second, done, 0));
        CHECK(cudaFreeAsync(out, second));
        int *again = nullptr;
        CHECK(cudaMallocAsync(&again, n * sizeof(int), second));
        count<<<4, 256, 0, second>>>(again, n);
        CHECK(cudaGetLastError());
        CHECK(cudaFreeAsync(again, second));
    }
    CHECK(cudaStreamSynchronize(first));
    CHECK(cudaStreamSynchronize(second));
    std::printf("done\n");
    CHECK(cudaEventDestroy(done));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}
