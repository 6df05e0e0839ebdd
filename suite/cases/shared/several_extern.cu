// bug: two extern arrays of different types are one memory, and the wider one does not fit
// expect: rule=shared-out-of-bounds-write function=widen size=256
#include "case.h"

__device__ void store_wide(int i, double value) {
    extern __shared__ double wide[];
    wide[i] = value;  // BUG
}

__global__ void widen(float *out, int n) {
    extern __shared__ float narrow[];
    int i = threadIdx.x;
    if (i < n) store_wide(i, i * 0.5);
    __syncthreads();
    if (i < 32) out[i] = narrow[i] + narrow[i + 32];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *out = zeroed<float>(32);
    widen<<<1, 64, 64 * sizeof(float)>>>(out, 32 + bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
