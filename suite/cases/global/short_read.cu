// bug: half-precision samples are read one past the end
// expect: rule=global-out-of-bounds-read function=widen size=202
#include "case.h"

__global__ void widen(const unsigned short *in, int *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = in[i] * 2;  // BUG
}

int main() {
    const int n = 101;
    unsigned short *in = upload(counting<unsigned short>(n));
    int *out = zeroed<int>(n + 1);
    widen<<<1, 32>>>(in, out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
