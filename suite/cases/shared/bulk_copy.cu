// bug: a bulk copy from shared memory takes more bytes than the array has
// build: arch=90
// expect: rule=shared-out-of-bounds-read function=flush size=256
#include "case.h"

__global__ void flush(int *out, unsigned bytes) {
    __shared__ __align__(16) int tile[64];
    tile[threadIdx.x] = threadIdx.x * 3;
    tile[threadIdx.x + 32] = threadIdx.x;
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile));
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(address), "r"(bytes) : "memory");  // BUG
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(128);
    flush<<<1, 32>>>(out, bad ? 272 : 256);
    FINISH();
    print_digest("out", out, 64);
    CHECK(cudaFree(out));
}
