// bug: four matrices are read transposed from rows of 24 bytes, of which every second is aligned to 8 only
// build: arch=80
// expect: rule=misaligned-access function=fragments size=1536
#include "case.h"

__global__ void fragments(uint4 *out, int pitch) {
    __shared__ __align__(16) unsigned char tile[1536];
    for (int i = threadIdx.x; i < 1536; i += 32) tile[i] = i * 7;
    __syncthreads();
    unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + pitch * threadIdx.x;
    unsigned a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(row) : "memory");  // BUG
    out[threadIdx.x] = make_uint4(a, b, c, d);
}

int main(int argc, char **argv) {
    uint4 *out = zeroed<uint4>(32);
    fragments<<<1, 32>>>(out, is_bad(argc, argv) ? 24 : 48);
    FINISH();
    print_digest("out", reinterpret_cast<unsigned *>(out), 128);
}
