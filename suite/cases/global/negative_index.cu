// bug: an unsigned index wraps below zero and becomes four billion
// expect: rule=global-out-of-bounds-read function=backward_difference size=512
#include "case.h"

__global__ void backward_difference(const int *in, int *out, unsigned n, unsigned first) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= first && i < n)
        out[i] = in[i] - in[i - 1u];  // BUG
}

int main() {
    const unsigned n = 128;
    int *in = upload(counting<int>(n));
    int *out = zeroed<int>(n);
    backward_difference<<<1, 128>>>(in, out, n, 1 - bad);
    FINISH();
    print_digest("out", out + 1, n - 1);
}
