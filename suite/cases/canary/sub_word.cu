// bug: a kernel writes one byte past the end of a buffer of an odd size
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z4fillPhi argument=0 at=0 size=1001
#include "case.h"

__global__ void fill(unsigned char *out, int n) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 1;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 1001;
    unsigned char *out = zeroed<unsigned char>(n);
    fill<<<4, 256>>>(out, n + bad);
    FINISH();
    print_digest("out", out, n);
    CHECK(cudaFree(out));
}
