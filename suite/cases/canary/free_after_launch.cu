// bug: a kernel writes past a buffer that is freed without any other wait
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
    for (int round = 0; round < 10; round++) {
        int *out = nullptr;
        CHECK(cudaMalloc(&out, n * sizeof(int)));
        count<<<4, 256>>>(out, n + (bad && round == 5));
        CHECK(cudaGetLastError());
        CHECK(cudaFree(out));
    }
    std::printf("done\n");
}
