// bug: a kernel writes past the end of managed memory, which does not lie at unmapped pages
// run: protect=pages
// expect: rule=canary-overwritten kernel=_Z5countPii argument=0 at=0 size=4096
#include "case.h"

__global__ void count(int *out, int n) {  // BUG
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = nullptr;
    CHECK(cudaMallocManaged(&out, 4096));
    count<<<1, 64>>>(out, 1024 + bad);
    FINISH();
    long long sum = 0;
    for (int i = 0; i < 1024; i++) sum += out[i];
    std::printf("sum %lld\n", sum);
    CHECK(cudaFree(out));
}
