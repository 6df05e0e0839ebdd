// bug: eight bytes written to a buffer that ends in the middle of them
// expect: rule=global-out-of-bounds-write function=halve size=796
#include "case.h"

__global__ void halve(double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = i * 0.5;  // BUG
}

int main() {
    const int n = 100;
    double *out = nullptr;
    size_t bytes = n * sizeof(double) - 4;  // the last double fits only half
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemset(out, 0, bytes));
    halve<<<4, 32>>>(out, n - 1 + bad);
    FINISH();
    print_digest("out", out, n - 1);
}
