// bug: a block of a pool that NVTX knows is written past its end, where nothing is handed out
// run: protect=shadow
// expect: rule=use-after-poison function=fill size=1048576
#include "nvtx_pool.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    NvtxPool pool(true, 1 << 20);
    int *block = static_cast<int *>(pool.take(800));
    fill<<<1, 512>>>(block, 200 + bad);
    FINISH();
    pool.resize(block, 1200);
    fill<<<1, 512>>>(block, 300);
    FINISH();
    print_digest("block", block, 300);
    pool.give(block);
}
