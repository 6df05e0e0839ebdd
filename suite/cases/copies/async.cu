// bug: an asynchronous copy in a stream is longer than its destination
// expect: rule=copy-out-of-bounds-write call=cuMemcpyHtoDAsync size=512
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *host = nullptr;
    CHECK(cudaMallocHost(&host, 1024));
    for (int i = 0; i < 256; i++) host[i] = i;
    int *data = zeroed<int>(128);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    TRY(cudaMemcpyAsync(data, host, bad ? 516 : 512, cudaMemcpyHostToDevice, stream));  // BUG
    CHECK(cudaStreamSynchronize(stream));
    use(data, 128);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(data));
}
