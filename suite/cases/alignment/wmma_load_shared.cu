// bug: the tile of a matrix fragment lies behind a header of 8 bytes in shared memory
// build: arch=80
// expect: rule=misaligned-access function=product size=1024
#include "case.h"

// Rows of 24 halves: the padding of 16 bytes that programs have against bank conflicts.
__global__ void product(unsigned *out, int header) {
    __shared__ __align__(32) unsigned short tile[512];
    for (int i = threadIdx.x; i < 512; i += 32) tile[i] = i;
    __syncthreads();
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile + header));
    unsigned a[8];
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 24;" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]), "=r"(a[4]), "=r"(a[5]), "=r"(a[6]), "=r"(a[7]) : "r"(at) : "memory");  // BUG
    unsigned sum = 0;
    for (int i = 0; i < 8; ++i) sum += (a[i] & 0xffff) + (a[i] >> 16);
    atomicAdd(out, sum);
}

int main(int argc, char **argv) {
    unsigned *out = zeroed<unsigned>(1);
    product<<<1, 32>>>(out, is_bad(argc, argv) ? 4 : 16);
    FINISH();
    print_digest("out", out, 1);
}
