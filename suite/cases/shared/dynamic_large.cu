// bug: one past the end of more dynamic shared memory than a kernel gets without asking
// build: arch=80
// expect: rule=shared-out-of-bounds-read function=reverse size=65536
#include "case.h"

__global__ void reverse(int *out, int n, int shift) {
    extern __shared__ int values[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = values[n - 1 - i + shift];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 16384;
    int *out = zeroed<int>(n);
    CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4));
    reverse<<<1, 256, n * sizeof(int)>>>(out, n, bad);
    FINISH();
    print_digest("out", out, n);
    CHECK(cudaFree(out));
}
