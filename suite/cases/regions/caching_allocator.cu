// bug: a caching allocator splits its segments into blocks, and a kernel writes into the next block
// annotated
// expect: rule=intra-allocation-out-of-bounds-write function=fill size=1000
#include "caching.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    CachingAllocator cache(is_annotated(argc, argv));
    int *first = static_cast<int *>(cache.take(1000));
    int *second = static_cast<int *>(cache.take(1000));
    fill<<<1, 512>>>(second, 250);
    fill<<<1, 512>>>(first, bad ? 260 : 250);
    FINISH();
    print_digest("first", first, 250);
    cache.give(first);
    cache.give(second);
}
