// bug: a bulk copy writes rows of 18 words, of which every second starts 8 bytes off
// build: arch=90
// expect: rule=misaligned-access function=flush size=1280
#include "case.h"

__global__ void flush(int *out, unsigned pitch) {
    __shared__ __align__(16) int tile[64];
    tile[threadIdx.x] = threadIdx.x * 3;
    tile[threadIdx.x + 32] = threadIdx.x;
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    if (threadIdx.x < 4) {
        unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile + 16 * threadIdx.x));
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" ::"l"(out + pitch * threadIdx.x), "r"(address) : "memory");  // BUG
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

int main(int argc, char **argv) {
    int *out = zeroed<int>(320);
    flush<<<1, 32>>>(out, is_bad(argc, argv) ? 18 : 20);
    FINISH();
    print_digest("out", out, 320);
}
