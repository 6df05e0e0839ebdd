// bug: a bulk copy adds a tile to the end of a buffer that has room for half of it
// build: arch=90
// expect: rule=global-out-of-bounds-atomic function=add size=1920
#include "case.h"

__global__ void add(unsigned *sums, int tiles) {
    __shared__ __align__(16) unsigned tile[64];
    unsigned source = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    for (int i = threadIdx.x; i < 64; i += 32) tile[i] = i * 7;
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 0; t < tiles; t++)
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 256;" ::"l"(sums + 64 * t), "r"(source) : "memory");  // BUG
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned *sums = upload(counting<unsigned>(480));
    add<<<4, 32>>>(sums, 7 + bad);
    FINISH();
    print_digest("sums", sums, 480);
    CHECK(cudaFree(sums));
}
