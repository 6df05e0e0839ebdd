// bug: a warp arrives at a barrier behind the array of barriers, and waits there
// build: arch=90
// expect: rule=shared-out-of-bounds-atomic function=hand_over size=32
#include "case.h"

__global__ void hand_over(int *out, int shift) {
    __shared__ __align__(8) unsigned long long barriers[4];
    __shared__ int words[128];
    int warp = threadIdx.x / 32;
    unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[warp]));
    words[threadIdx.x] = threadIdx.x * 5;
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(own) : "memory");
    __syncthreads();
    unsigned mine = own + 8 * shift;
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(mine) : "memory");  // BUG
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(mine), "l"(state) : "memory");  // BUG
    __syncthreads();
    out[threadIdx.x] = words[127 - threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(128);
    // The last warp's is the one behind.
    hand_over<<<1, 128>>>(out, bad);
    FINISH();
    print_digest("out", out, 128);
    CHECK(cudaFree(out));
}
