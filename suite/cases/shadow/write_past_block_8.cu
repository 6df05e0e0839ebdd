// bug: a kernel writes the byte after a buffer that ends inside a block of 8 bytes
// run: protect=shadow shadow-encoding=8
// expect: rule=global-out-of-bounds-write function=fill size=1021
#include "case.h"

__global__ void fill(unsigned char *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (unsigned char)(i * 7);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned char *out = zeroed<unsigned char>(1021);
    fill<<<8, 128>>>(out, 1021 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 1021);
    CHECK(cudaFree(out));
}
