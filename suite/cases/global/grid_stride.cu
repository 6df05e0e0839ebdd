// bug: a grid-stride loop runs while i <= n
// expect: rule=global-out-of-bounds-write function=saxpy size=4000
#include "case.h"

__global__ void saxpy(int n, float a, const float *x, float *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + 1.0f;  // BUG
}

int main() {
    const int n = 1000;
    float *x = upload(counting<float>(n + 1));
    float *y = zeroed<float>(n);
    saxpy<<<3, 64>>>(n - 1 + bad, 2.0f, x, y);
    FINISH();
    print_digest("y", y, n);
}
