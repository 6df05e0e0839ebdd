// bug: memory of the stream-ordered allocator is never freed
// run: leak-check=full
// expect: rule=memory-leak leak size=4000
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *pool = nullptr;
    CHECK(cudaMallocAsync(&pool, 4000, nullptr));  // BUG
    CHECK(cudaMemsetAsync(pool, 0, 4000, nullptr));
    if (!bad) CHECK(cudaFreeAsync(pool, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(data));
}
