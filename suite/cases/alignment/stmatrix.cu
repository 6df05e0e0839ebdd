// bug: the rows that stmatrix writes are padded by four bytes, not by 16
// build: arch=90
// expect: rule=misaligned-access function=store_rows size=512
#include "case.h"

__global__ void store_rows(unsigned *out, int pitch) {
    __shared__ __align__(16) unsigned tile[128];
    for (int i = threadIdx.x; i < 128; i += 32) tile[i] = 0;
    __syncthreads();
    unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + pitch * (threadIdx.x % 16);
    unsigned low = threadIdx.x * 0x10001, high = ~low;
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(low), "r"(high) : "memory");  // BUG
    __syncthreads();
    for (int i = threadIdx.x; i < 128; i += 32) out[i] = tile[i];
}

int main(int argc, char **argv) {
    unsigned *out = zeroed<unsigned>(128);
    store_rows<<<1, 32>>>(out, is_bad(argc, argv) ? 20 : 32);
    FINISH();
    print_digest("out", out, 128);
}
