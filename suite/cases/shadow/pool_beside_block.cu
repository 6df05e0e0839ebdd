// bug: a kernel writes past its block of a caching allocator, where nothing is handed out
// run: protect=shadow
// expect: rule=use-after-poison function=fill size=2097152
#include "caching.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    CachingAllocator cache(true);
    int *first = static_cast<int *>(cache.take(1000)), *second = static_cast<int *>(cache.take(1000));
    fill<<<1, 512>>>(second, 250);
    fill<<<1, 512>>>(first, 250 + bad);
    FINISH();
    print_digest("first", first, 250);
    cache.give(first);
    cache.give(second);
}
