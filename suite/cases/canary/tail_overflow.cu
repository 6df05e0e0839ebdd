// bug: a kernel writes three elements past the end of its buffer
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z5countPii argument=0 at=0 size=4000
#include "case.h"

__global__ void count(int *out, int n) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 1000;
    int *out = zeroed<int>(n), *other = zeroed<int>(n);
    count<<<4, 256>>>(out, n + (bad ? 3 : 0));
    FINISH();
    print_digest("out", out, n);
    print_digest("other", other, n);
    CHECK(cudaFree(out));
    CHECK(cudaFree(other));
}
