// bug: a kernel writes past a buffer whose size is no multiple of the alignment, and misses the unmapped page
// run: protect=pages
// expect: rule=canary-overwritten kernel=_Z5countPii argument=0 at=0 size=1000
#include "case.h"

__global__ void count(int *out, int n) {  // BUG
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(250);
    count<<<1, 64>>>(out, 250 + bad);
    FINISH();
    std::printf("aligned %d\n", int((size_t)out % 512 == 0));
    print_digest("out", out, 250);
    CHECK(cudaFree(out));
}
