// bug: a bulk copy of a size that is known only on the device reads a tile from its second word on
// build: arch=90
// expect: rule=misaligned-access function=flush size=512
#include "case.h"

__global__ void flush(int *out, int first, unsigned bytes) {
    __shared__ __align__(16) int tile[128];
    for (int i = threadIdx.x; i < 128; i += 32) tile[i] = i * 3;
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile + first));
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(address), "r"(bytes) : "memory");  // BUG
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

int main(int argc, char **argv) {
    int *out = zeroed<int>(128);
    flush<<<1, 32>>>(out, is_bad(argc, argv) ? 1 : 4, 256);
    FINISH();
    print_digest("out", out, 128);
}
