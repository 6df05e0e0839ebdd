// bug: the kernel is launched for one element more than the buffer has
// expect: rule=global-out-of-bounds-write function=fill size=400
#include "case.h"

__global__ void fill(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = i * 3;  // BUG
}

int main() {
    const int n = 100;
    int *out = zeroed<int>(n);
    fill<<<1, 128>>>(out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
