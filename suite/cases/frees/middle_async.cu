// bug: the stream-ordered free gets a pointer into the middle of an allocation
// expect: rule=invalid-free call=cuMemFreeAsync size=400
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *pool = nullptr;
    CHECK(cudaMallocAsync(&pool, 400, nullptr));
    if (bad) TRY(cudaFreeAsync(pool + 16, nullptr));  // BUG
    CHECK(cudaFreeAsync(pool, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(data));
}
