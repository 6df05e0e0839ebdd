// bug: a kernel writes to a block that a caching allocator has taken back
// run: protect=shadow
// expect: rule=use-after-free function=fill size=1000
#include "caching.h"

__global__ void fill(int *const *where, int n) {
    int i = threadIdx.x;
    if (i < n) where[0][i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    CachingAllocator cache(true);
    int *first = static_cast<int *>(cache.take(1000)), *second = static_cast<int *>(cache.take(3000));
    int **where = upload(std::vector<int *>{first});
    fill<<<1, 256>>>(where, 250);
    FINISH();
    if (bad) cache.give(first);
    fill<<<1, 256>>>(where, 250);
    FINISH();
    if (!bad) {
        print_digest("first", first, 250);
        cache.give(first);
    }
    cache.give(second);
    CHECK(cudaFree(where));
}
