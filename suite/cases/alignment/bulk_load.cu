// bug: a bulk copy starts at a row of 24 bytes, which is aligned to 8 only, and the block waits for it
// build: arch=90
// expect: rule=misaligned-access function=fetch size=1024
#include "case.h"

__global__ void fetch(const int *in, int *out) {
    __shared__ __align__(16) int tile[64];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned arrival = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrival) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(arrival) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(target), "l"(in), "r"(arrival) : "memory");  // BUG
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(arrival) : "memory");
    out[threadIdx.x] = tile[threadIdx.x] + tile[threadIdx.x + 32];
}

int main(int argc, char **argv) {
    int *in = upload(counting<int>(256));
    int *out = zeroed<int>(32);
    fetch<<<1, 32>>>(in + (is_bad(argc, argv) ? 6 : 4), out);
    FINISH();
    print_digest("out", out, 32);
}
