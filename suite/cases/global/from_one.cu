// bug: an array that is passed as `p - 1` and indexed from 1 is read at 0
// expect: rule=global-out-of-bounds-read function=smooth size=400
#include "case.h"

__global__ void smooth(const float *in, float *out, int n) {
    int i = threadIdx.x + 1;
    if (i > n) return;
    float left = in[i - bad];  // BUG
    out[i] = left + in[i];
}

int main() {
    const int n = 100;
    float *in = upload(counting<float>(n)), *out = zeroed<float>(n);
    smooth<<<1, 128>>>(in - 1, out - 1, n);
    FINISH();
    print_digest("out", out, n);
}
