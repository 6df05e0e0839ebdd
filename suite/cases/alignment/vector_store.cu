// bug: float2 results are written through a pointer that advances by one float
// expect: rule=misaligned-access function=pairs size=2052
#include "case.h"

__global__ void pairs(float *out, int n, int step) {
    float *at = out + threadIdx.x * 2 * n;
    for (int i = 0; i < n; ++i) {
        float2 pair = make_float2(i, threadIdx.x);
        *reinterpret_cast<float2 *>(at) = pair;  // BUG
        at += step;
    }
}

int main(int argc, char **argv) {
    const int n = 8;
    float *out = zeroed<float>(32 * 2 * n + 1);
    pairs<<<1, 32>>>(out, n, is_bad(argc, argv) ? 1 : 2);
    FINISH();
    print_digest("out", out, 32 * 2 * n + 1);
}
