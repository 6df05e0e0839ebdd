// bug: a bulk copy from shared to shared memory goes to an address that is aligned to a word only
// build: arch=90
// expect: rule=misaligned-access function=duplicate size=1024
#include "case.h"

__global__ void duplicate(int *out, int second) {
    __shared__ __align__(16) int tile[256];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned arrival = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    unsigned source = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = i;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(arrival) : "memory");
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(arrival) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(source + 4 * second), "r"(source), "r"(arrival) : "memory");  // BUG
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(arrival) : "memory");
    out[threadIdx.x] = tile[threadIdx.x + second];
}

int main(int argc, char **argv) {
    int *out = zeroed<int>(32);
    duplicate<<<1, 32>>>(out, is_bad(argc, argv) ? 129 : 132);
    FINISH();
    print_digest("out", out, 32);
}
