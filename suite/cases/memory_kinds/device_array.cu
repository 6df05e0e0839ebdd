// bug: a row of a two-dimensional __device__ array is indexed by the number of columns
// expect: rule=global-out-of-bounds-read function=column_sum size=480
#include "case.h"

__device__ float table[10][12];
__device__ float behind[64];

__global__ void column_sum(float *out, int rows) {
    float sum = behind[threadIdx.x];
    for (int r = 0; r < rows; r++) sum += table[r][threadIdx.x];  // BUG
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<float> host = counting<float>(120);
    CHECK(cudaMemcpyToSymbol(table, host.data(), 480));
    float *out = zeroed<float>(12);
    column_sum<<<1, 12>>>(out, bad ? 12 : 10);
    FINISH();
    if (!bad) print_digest("out", out, 12);
    CHECK(cudaFree(out));
}
