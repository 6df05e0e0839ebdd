// bug: copies arrive at a barrier that lies behind an odd number of words
// build: arch=90
// expect: rule=misaligned-access function=stage size=1024
#include "case.h"

extern __shared__ __align__(16) int scratch[];

__global__ void stage(const int *in, int *out, int words) {
    unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(scratch + words));
    unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(scratch + threadIdx.x));
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(barrier) : "memory");  // BUG
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(target), "l"(in + threadIdx.x) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");  // BUG
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(barrier) : "memory");  // BUG
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = scratch[31 - threadIdx.x];
}

int main(int argc, char **argv) {
    int *in = upload(counting<int>(32));
    int *out = zeroed<int>(32);
    stage<<<1, 32, 1024>>>(in, out, is_bad(argc, argv) ? 33 : 34);
    FINISH();
    print_digest("out", out, 32);
}
