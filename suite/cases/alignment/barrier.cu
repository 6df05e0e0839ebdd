// bug: barriers lie behind an odd number of words in dynamic shared memory, and a block waits at them
// build: arch=90
// expect: rule=misaligned-access function=hand_over size=1024
#include "case.h"

extern __shared__ __align__(16) int scratch[];

__global__ void hand_over(int *out, int words) {
    unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(scratch + words));
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(barrier) : "memory");  // BUG
    scratch[threadIdx.x] = threadIdx.x * 5;
    __syncthreads();
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(barrier) : "memory");  // BUG
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(barrier), "l"(state) : "memory");  // BUG
    __syncthreads();
    out[threadIdx.x] = scratch[63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");  // BUG
}

int main(int argc, char **argv) {
    int *out = zeroed<int>(64);
    hand_over<<<1, 64, 1024>>>(out, is_bad(argc, argv) ? 65 : 66);
    FINISH();
    print_digest("out", out, 64);
}
