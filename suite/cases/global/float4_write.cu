// bug: a 16-byte store behind the end
// expect: rule=global-out-of-bounds-write function=scale4 size=4096
#include "case.h"

__global__ void scale4(float4 *data, int n, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = make_float4(i * factor, i + factor, factor, 1.0f);  // BUG
}

int main() {
    const int n = 256;
    float4 *data = zeroed<float4>(n);
    scale4<<<3, 128>>>(data, n + bad, 0.25f);
    FINISH();
    print_digest("data", data, n);
}
