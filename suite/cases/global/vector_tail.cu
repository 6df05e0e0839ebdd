// bug: a vectorised copy reads its last four floats though three are left
// expect: rule=global-out-of-bounds-read function=copy4 size=4012
#include "case.h"

__global__ void copy4(const float *in, float *out, int n, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < vectors) {
        reinterpret_cast<float4 *>(out)[i] = reinterpret_cast<const float4 *>(in)[i];  // BUG
    } else {
        int tail = vectors * 4 + (i - vectors);
        if (tail < n) out[tail] = in[tail];
    }
}

int main() {
    const int n = 1003;
    float *in = upload(counting<float>(n));
    float *out = zeroed<float>(n + 1);
    copy4<<<2, 160>>>(in, out, n, n / 4 + bad);
    FINISH();
    print_digest("out", out, n - 3);
}
