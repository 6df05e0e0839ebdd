// bug: the entry before the first of a constant table is read
// expect: rule=constant-out-of-bounds-read function=slope size=64
#include "case.h"

__constant__ float ahead[16];
__constant__ float curve[16];

__global__ void slope(float *out, int first) {
    int i = threadIdx.x + first;
    out[threadIdx.x] = curve[i] - curve[i - 1] + ahead[threadIdx.x];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<float> values = counting<float>(16);
    CHECK(cudaMemcpyToSymbol(curve, values.data(), 64));
    float *out = zeroed<float>(15);
    slope<<<1, 15>>>(out, bad ? 0 : 1);
    FINISH();
    print_digest("out", out, 1 - bad);
    CHECK(cudaFree(out));
}
