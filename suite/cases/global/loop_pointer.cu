// bug: a pointer that advances by a stride overruns in its last round
// expect: rule=global-out-of-bounds-read function=strided size=4092
#include "case.h"

__global__ void strided(const float *in, float *out, int rounds, int stride) {
    const float *p = in + threadIdx.x;
    float sum = 0;
    for (int r = 0; r < rounds; r++) {
        sum += *p;  // BUG
        p += stride;
    }
    out[threadIdx.x] = sum;
}

int main() {
    const int width = 32, rounds = 32;
    // One element short of rounds * width: only the last lane of the last
    // round would miss it. The good twin has the full buffer.
    float *in = upload(counting<float>(width * rounds - bad));
    float *out = zeroed<float>(width);
    strided<<<1, width>>>(in, out, rounds, width);
    FINISH();
    print_digest("out", out, width - 1);
}
