// bug: off by one, in a program linked with the shared CUDA runtime
// build: cudart=shared
// expect: rule=global-out-of-bounds-write function=ramp size=516
#include "case.h"

__global__ void ramp(float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 0.25f * i;  // BUG
}

int main() {
    const int n = 129;
    float *out = zeroed<float>(n);
    ramp<<<5, 32>>>(out, n + bad);
    FINISH();
    print_digest("out", out, n);
    CHECK(cudaFree(out));
    CHECK(cudaDeviceReset());
}
