// bug: the second copy of a batch is longer than its destination
// expect: rule=copy-out-of-bounds-write call=cuMemcpyBatchAsync size=200
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(100));
    int *first = zeroed<int>(50), *second = zeroed<int>(50);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const void *sources[2] = {from, from + 50};
    void *destinations[2] = {first, second};
    size_t sizes[2] = {200, 200 + 0 * sizeof(int)};
    if (bad) {
        sources[1] = from + 20;
        sizes[1] = 204;
    }
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t index = 0;
    TRY(cudaMemcpyBatchAsync(destinations, sources, sizes, 2, &attributes, &index, 1, stream));  // BUG
    CHECK(cudaStreamSynchronize(stream));
    use(second, 50);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(from));
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
}
