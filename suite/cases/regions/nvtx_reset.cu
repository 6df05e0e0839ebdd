// bug: a pool that NVTX knows takes all its blocks back, and one is used on
// annotated
// expect: rule=use-after-free function=add size=1000
#include "nvtx_pool.h"

__global__ void add(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] += i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    NvtxPool pool(is_annotated(argc, argv), 1 << 20);
    pool.take(300);
    int *old = static_cast<int *>(pool.take(1000));
    add<<<1, 256>>>(old, 250);
    FINISH();
    pool.reset();
    int *fresh = static_cast<int *>(pool.take(400));
    add<<<1, 256>>>(fresh, 100);
    add<<<1, 256>>>(bad ? old : fresh, 100);
    FINISH();
    print_digest("fresh", fresh, 100);
}
