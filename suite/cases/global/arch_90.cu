// bug: an unrolled, vectorised loop built for sm_90
// build: arch=90
// expect: rule=global-out-of-bounds-read function=dot size=4000
#include "case.h"

__global__ void dot(const float *__restrict__ a, const float *__restrict__ b, float *out, int n) {
    float sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < n; i += 32)
        sum += a[i] * b[i];  // BUG
    for (int lane = 16; lane; lane >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x == 0) *out = sum;
}

int main() {
    const int n = 1000;
    float *a = upload(counting<float>(n));
    float *b = upload(std::vector<float>(n + 1, 1.0f));
    float *out = zeroed<float>(1);
    dot<<<1, 32>>>(a, b, out, n + bad);
    FINISH();
    print_digest("out", out, 1);
}
