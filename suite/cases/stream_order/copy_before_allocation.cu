// bug: a copy in another stream uses memory without waiting for its allocation
// expect: rule=use-before-allocation call=cuMemcpy size=1000
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    cudaStream_t owner, worker;
    CHECK(cudaStreamCreateWithFlags(&owner, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&worker, cudaStreamNonBlocking));
    cudaEvent_t allocated, done;
    CHECK(cudaEventCreateWithFlags(&allocated, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    int *from = upload(counting<int>(n)), *data = nullptr;
    CHECK(cudaMallocAsync(&data, n * sizeof(int), owner));
    CHECK(cudaEventRecord(allocated, owner));
    if (!bad) CHECK(cudaStreamWaitEvent(worker, allocated, 0));
    TRY(cudaMemcpyAsync(data, from, n * sizeof(int), cudaMemcpyDeviceToDevice, worker));  // BUG
    CHECK(cudaEventRecord(done, worker));
    CHECK(cudaStreamWaitEvent(owner, done, 0));
    if (!bad) {
        mix<<<1, 256, 0, owner>>>(data, from, n);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaFreeAsync(data, owner));
    CHECK(cudaDeviceSynchronize());
    print_digest("from", from, n);
    use(from, n);
    CHECK(cudaEventDestroy(allocated));
    CHECK(cudaEventDestroy(done));
    CHECK(cudaStreamDestroy(owner));
    CHECK(cudaStreamDestroy(worker));
    CHECK(cudaFree(from));
}
