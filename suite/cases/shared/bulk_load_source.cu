// bug: a bulk copy reads over the end of the global buffer that it fetches a tile from
// build: arch=90
// expect: rule=global-out-of-bounds-read function=fetch size=2000
#include "case.h"

__global__ void fetch(const int *in, int *out, int tiles) {
    __shared__ __align__(16) int tile[64];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned arrival = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrival) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int sum = 0;
    for (int t = 0; t < tiles; t++) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(arrival) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(target), "l"(in + 64 * t), "r"(arrival) : "memory");  // BUG
        }
        unsigned done = 0;
        while (!done)
            asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(arrival), "r"(t & 1) : "memory");
        sum += tile[threadIdx.x] + tile[threadIdx.x + 32];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    // Seven tiles, and most of an eighth.
    int *in = upload(counting<int>(500));
    int *out = zeroed<int>(32);
    fetch<<<1, 32>>>(in, out, 7 + bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
