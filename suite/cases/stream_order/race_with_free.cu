// bug: memory is freed in one stream while a kernel in another still uses it
// expect: rule=stream-order-race call=cuMemFreeAsync size=1000
#include "case.h"

__global__ void grind(int *data, int n, int rounds) {
    int i = threadIdx.x;
    for (int round = 0; round < rounds; round++)
        if (i < n) data[i] = data[i] * 5 + round;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    cudaStream_t owner, worker;
    CHECK(cudaStreamCreateWithFlags(&owner, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&worker, cudaStreamNonBlocking));
    cudaEvent_t ready, done;
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    int *data = nullptr;
    CHECK(cudaMallocAsync(&data, n * sizeof(int), owner));
    CHECK(cudaMemsetAsync(data, 0, n * sizeof(int), owner));
    CHECK(cudaEventRecord(ready, owner));
    CHECK(cudaStreamWaitEvent(worker, ready, 0));
    grind<<<1, 256, 0, worker>>>(data, n, 50);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(done, worker));
    if (!bad) CHECK(cudaStreamWaitEvent(owner, done, 0));
    CHECK(cudaFreeAsync(data, owner));  // BUG
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(ready));
    CHECK(cudaEventDestroy(done));
    CHECK(cudaStreamDestroy(owner));
    CHECK(cudaStreamDestroy(worker));
}
