// bug: pointers kept in __constant__ memory, one buffer shorter than assumed
// expect: rule=global-out-of-bounds-read function=mix size=396
#include "case.h"

struct Inputs {
    const float *left;
    const float *right;
};
__constant__ Inputs inputs;

__global__ void mix(float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float l = inputs.left[i];
        float r = inputs.right[i];  // BUG
        out[i] = l * 2.0f + r;
    }
}

int main() {
    const int n = 100;
    Inputs host;
    host.left = upload(counting<float>(n));
    host.right = upload(counting<float>(n - bad));
    CHECK(cudaMemcpyToSymbol(inputs, &host, sizeof host));
    float *out = zeroed<float>(n);
    mix<<<4, 32>>>(out, n);
    FINISH();
    print_digest("out", out, n - 1);
}
