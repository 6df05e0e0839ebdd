// bug: an address in shared memory that another lane computed is read past the array's end
// expect: rule=shared-out-of-bounds-read function=exchange size=128
#include "case.h"
#include <cstdint>

__global__ void exchange(int *out, int shift) {
    __shared__ int values[32];
    __shared__ int behind[32];
    values[threadIdx.x] = threadIdx.x;
    behind[threadIdx.x] = -1;
    __syncthreads();
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&values[threadIdx.x]));
    address = __shfl_xor_sync(0xffffffff, address, 3) + shift;
    int value;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(address));  // BUG
    out[threadIdx.x] = value + behind[threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    exchange<<<1, 32>>>(out, bad ? 4 : 0);
    FINISH();
    if (!bad) print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
