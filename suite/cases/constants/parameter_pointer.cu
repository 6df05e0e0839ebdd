// bug: a kernel parameter goes by address to a function, which reads past it
// expect: rule=parameter-out-of-bounds-read function=norm size=32
#include "case.h"

struct Vector {
    float value[8];
};

__device__ __noinline__ float norm(const float *values, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += values[i] * values[i];  // BUG
    return sum;
}

__global__ void norms(const __grid_constant__ Vector vector, float *out, int n) {
    out[threadIdx.x] = norm(vector.value, n);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Vector vector;
    for (int i = 0; i < 8; i++) vector.value[i] = i;
    float *out = zeroed<float>(32);
    norms<<<1, 32>>>(vector, out, 8 + bad);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(out));
}
