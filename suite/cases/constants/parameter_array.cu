// bug: an array in a kernel parameter is indexed past the parameter's end
// expect: rule=parameter-out-of-bounds-read function=blend
#include "case.h"

struct Weights {
    float value[12];
};

__global__ void blend(const __grid_constant__ Weights weights, float *out, int last) {
    float sum = 0;
    for (int i = threadIdx.x % 4; i <= last; i += 4) sum += weights.value[i];  // BUG
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Weights weights;
    for (int i = 0; i < 12; i++) weights.value[i] = i * 0.25f;
    float *out = zeroed<float>(32);
    blend<<<1, 32>>>(weights, out, 11 + bad);
    FINISH();
    print_digest("out", out + 1, 3);
    CHECK(cudaFree(out));
}
