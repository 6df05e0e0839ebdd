// bug: a kernel writes past the end of a buffer of whole blocks, with the smaller blocks
// run: protect=shadow shadow-encoding=128
// expect: rule=global-out-of-bounds-write function=fill size=512
#include "case.h"

__global__ void fill(float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i * 0.5f;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *out = zeroed<float>(128);
    fill<<<3, 64>>>(out, 128 + bad);
    FINISH();
    print_digest("out", out, 128);
    CHECK(cudaFree(out));
}
