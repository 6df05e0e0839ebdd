// bug: a kernel of which there is only machine code writes past the end of its buffer
// build: arch=90 machine-code
// expect: rule=canary-overwritten kernel=_Z5countPii at=0 size=4000
#include "case.h"

__global__ void count(int *out, int n) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 1000;
    int *out = zeroed<int>(n), *other = zeroed<int>(n);
    for (int round = 0; round < 10; round++) {
        count<<<4, 256>>>(other, n);
        count<<<4, 256>>>(out, n + (bad && round == 5));
    }
    FINISH();
    print_digest("out", out, n);
    print_digest("other", other, n);
    CHECK(cudaFree(out));
    CHECK(cudaFree(other));
}
