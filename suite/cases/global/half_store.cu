// bug: packed half-precision pairs, one pair too many
// expect: rule=global-out-of-bounds-write function=pack size=514
#include "case.h"
#include <cuda_fp16.h>

__global__ void pack(__half *out, int pairs, int n) {
    int i = threadIdx.x;
    if (i < pairs)
        reinterpret_cast<__half2 *>(out)[i] = __floats2half2_rn(i * 0.5f, i * 0.25f);  // BUG
    else if (i * 2 < n)
        out[i * 2] = __float2half(1.0f);
}

int main() {
    const int n = 257;
    __half *out = zeroed<__half>(n);
    pack<<<1, 160>>>(out, n / 2 + bad, n);
    FINISH();
    print_digest("out", out, n - 1);
}
