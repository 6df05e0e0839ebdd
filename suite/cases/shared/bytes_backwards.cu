// bug: an array of bytes is read backwards from one past its end
// expect: rule=shared-out-of-bounds-read function=reverse size=64
#include "case.h"

__global__ void reverse(unsigned char *out, int last) {
    __shared__ unsigned char bytes[64];
    __shared__ unsigned char behind[64];
    bytes[threadIdx.x] = threadIdx.x * 3;
    behind[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = bytes[last - threadIdx.x] + behind[threadIdx.x];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned char *out = zeroed<unsigned char>(64);
    reverse<<<1, 64>>>(out, 63 + bad);
    FINISH();
    print_digest("out", out + bad, 64 - bad);
    CHECK(cudaFree(out));
}
