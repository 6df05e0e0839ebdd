// bug: a table in constant memory is read one past its end
// expect: rule=constant-out-of-bounds-read function=filter size=36
#include "case.h"

__constant__ float weights[9];
__constant__ float behind[32];

__global__ void filter(const float *in, float *out, int taps) {
    float sum = 0;
    for (int t = 0; t < taps; t++)
        sum += weights[t] * in[threadIdx.x + t];  // BUG
    out[threadIdx.x] = sum + behind[threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<float> nine = counting<float>(9), more = counting<float>(32);
    CHECK(cudaMemcpyToSymbol(weights, nine.data(), 36));
    CHECK(cudaMemcpyToSymbol(behind, more.data(), 128));
    float *in = upload(counting<float>(64));
    float *out = zeroed<float>(32);
    filter<<<1, 32>>>(in, out, 9 + bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
