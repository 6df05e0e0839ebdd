// bug: a row index one too large of a local matrix
// expect: rule=local-out-of-bounds-read function=multiply size=144
#include "case.h"

__global__ void multiply(const float *in, float *out, int row) {
    float matrix[6][6];
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++) matrix[r][c] = in[r] * c;
    float sum = 0;
    for (int c = 0; c < 6; c++) sum += matrix[row][c] * in[c];  // BUG
    out[threadIdx.x] = sum + matrix[threadIdx.x % 6][row % 6];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *in = upload(counting<float>(6));
    float *out = zeroed<float>(32);
    multiply<<<1, 32>>>(in, out, 5 + bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
