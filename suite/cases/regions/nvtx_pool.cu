// bug: a block of a pool that NVTX knows was resized, and is written past its new end
// annotated
// expect: rule=intra-allocation-out-of-bounds-write function=fill size=1200
#include "nvtx_pool.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    NvtxPool pool(is_annotated(argc, argv), 1 << 20);
    int *first = static_cast<int *>(pool.take(1000));
    int *second = static_cast<int *>(pool.take(1000));
    fill<<<1, 512>>>(first, 250);
    fill<<<1, 512>>>(second, 250);
    FINISH();
    pool.give(first);
    pool.resize(second, 1200);
    fill<<<1, 512>>>(second, 300 + bad);
    FINISH();
    print_digest("second", second, 300);
    pool.give(second);
}
