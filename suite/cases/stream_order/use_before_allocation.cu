// bug: a kernel in another stream uses memory without waiting for its allocation
// expect: rule=use-before-allocation function=fill size=1024
#include "case.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 256;
    cudaStream_t allocating, working;
    CHECK(cudaStreamCreateWithFlags(&allocating, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&working, cudaStreamNonBlocking));
    cudaEvent_t allocated, done;
    CHECK(cudaEventCreateWithFlags(&allocated, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    int *data = nullptr;
    CHECK(cudaMallocAsync(&data, n * sizeof(int), allocating));
    CHECK(cudaEventRecord(allocated, allocating));
    if (!bad) CHECK(cudaStreamWaitEvent(working, allocated, 0));
    fill<<<1, n, 0, working>>>(data, n);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(done, working));
    CHECK(cudaStreamWaitEvent(allocating, done, 0));
    CHECK(cudaFreeAsync(data, allocating));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(allocated));
    CHECK(cudaEventDestroy(done));
    CHECK(cudaStreamDestroy(allocating));
    CHECK(cudaStreamDestroy(working));
}
