// bug: memory is freed in one stream while a set in another may not have been made
// expect: rule=stream-order-race call=cuMemFreeAsync size=1024
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 256;
    cudaStream_t owner, worker;
    CHECK(cudaStreamCreateWithFlags(&owner, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&worker, cudaStreamNonBlocking));
    int *data = nullptr, *other = zeroed<int>(n);
    CHECK(cudaMallocAsync(&data, n * sizeof(int), owner));
    CHECK(cudaStreamSynchronize(owner));
    CHECK(cudaMemsetAsync(data, 1, n * sizeof(int), worker));
    // A copy to memory that is not page-locked has been made when it returns,
    // and so has all that is before it in its stream.
    std::vector<int> host(n);
    CHECK(cudaMemcpyAsync(host.data(), bad ? other : data, n * sizeof(int), cudaMemcpyDeviceToHost,
                          bad ? owner : worker));
    CHECK(cudaFreeAsync(data, owner));  // BUG
    CHECK(cudaDeviceSynchronize());
    if (!bad) std::printf("host %016llx\n", digest_bytes(host.data(), n * sizeof(int)));
    use(other, n);
    CHECK(cudaStreamDestroy(owner));
    CHECK(cudaStreamDestroy(worker));
    CHECK(cudaFree(other));
}
