// bug: most threads leave early; one of those that stay overruns before it returns
// expect: rule=global-out-of-bounds-write function=filter size=60
#include "case.h"

__global__ void filter(const int *in, int *out, int n, int threshold) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (in[i] < threshold) return;
    int slot = in[i] - threshold;
    if (slot & 1) {
        out[slot] = i;  // BUG
        return;
    }
    out[slot] = -i;
}

int main() {
    const int n = 200;
    int *in = upload(counting<int>(n));
    int *out = zeroed<int>(15);
    filter<<<4, 64>>>(in, out, n, n - 15 - bad);
    FINISH();
    print_digest("out", out, 15 - bad);
}
