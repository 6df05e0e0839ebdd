// bug: a bulk copy into the shared memory of the next block of the cluster goes to an address that is aligned to a word only
// build: arch=90
// expect: rule=misaligned-access function=hand_on size=1024
#include "case.h"

__global__ void __cluster_dims__(2, 1, 1) hand_on(int *out, int second) {
    __shared__ __align__(16) int tile[256];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned arrival = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    unsigned source = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    unsigned rank, target, notified;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = 1000 * rank + i;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(arrival) : "memory");
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(target) : "r"(source + 4 * second), "r"(rank ^ 1));
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(notified) : "r"(arrival), "r"(rank ^ 1));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(arrival) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(target), "r"(source), "r"(notified) : "memory");  // BUG
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(arrival) : "memory");
    out[32 * rank + threadIdx.x] = tile[threadIdx.x + second];
    // The other block's memory lasts as long as both run.
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

int main(int argc, char **argv) {
    int *out = zeroed<int>(64);
    hand_on<<<2, 32>>>(out, is_bad(argc, argv) ? 129 : 132);
    FINISH();
    print_digest("out", out, 64);
}
