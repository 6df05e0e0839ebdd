// bug: a bulk copy adds a tile to sums that start in the middle of 16 bytes
// build: arch=90
// expect: rule=misaligned-access function=add size=2048
#include "case.h"

__global__ void add(unsigned *sums, int step) {
    __shared__ __align__(16) unsigned tile[64];
    unsigned source = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    for (int i = threadIdx.x; i < 64; i += 32) tile[i] = i * 7;
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 0; t < 4; t++)
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 256;" ::"l"(sums + step * t), "r"(source) : "memory");  // BUG
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

int main(int argc, char **argv) {
    unsigned *sums = upload(counting<unsigned>(512));
    add<<<4, 32>>>(sums, is_bad(argc, argv) ? 66 : 68);
    FINISH();
    print_digest("sums", sums, 512);
}
