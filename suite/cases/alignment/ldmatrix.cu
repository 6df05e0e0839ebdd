// bug: the rows of a tile for ldmatrix are padded by four bytes, not by 16
// build: arch=80
// expect: rule=misaligned-access function=fragments size=640
#include "case.h"

__global__ void fragments(unsigned *out, int pitch) {
    __shared__ __align__(16) unsigned char tile[640];
    for (int i = threadIdx.x; i < 640; i += 32) tile[i] = i * 7;
    __syncthreads();
    unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile + pitch * threadIdx.x));
    unsigned a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(row) : "memory");  // BUG
    out[threadIdx.x] = a;
}

int main(int argc, char **argv) {
    unsigned *out = zeroed<unsigned>(32);
    fragments<<<1, 32>>>(out, is_bad(argc, argv) ? 20 : 32);
    FINISH();
    print_digest("out", out, 32);
}
