// bug: a copy from the device is longer than the pinned host buffer that takes it
// expect: rule=copy-out-of-bounds-write call=cuMemcpyDtoH size=256
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(100));
    int *host = nullptr, *behind = nullptr;
    CHECK(cudaMallocHost(&host, 64 * sizeof(int)));
    CHECK(cudaMallocHost(&behind, 64 * sizeof(int)));
    TRY(cudaMemcpy(host, data, (64 + bad) * sizeof(int), cudaMemcpyDeviceToHost));  // BUG
    use(data, 100);
    CHECK(cudaFreeHost(host));
    CHECK(cudaFreeHost(behind));
    CHECK(cudaFree(data));
}
