// bug: the access is in a device function that the compiler did not inline
// expect: rule=global-out-of-bounds-read function=element size=1028
#include "case.h"

__device__ __noinline__ float element(const float *values, int index) {
    return values[index];  // BUG
}

__global__ void pairwise(const float *values, float *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = element(values, i) + element(values, i + 1);
}

int main() {
    const int n = 256;
    float *values = upload(counting<float>(n + 1));
    float *out = zeroed<float>(n + 1);
    pairwise<<<1, 288>>>(values, out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
