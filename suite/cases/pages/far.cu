// bug: a kernel reads a whole matrix past the end of its own
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z4pickPKfiiPf error=700 at=2621440 size=8388608 live
#include "failed.h"

__global__ void pick(const float *matrix, int width, int row, float *out) {
    out[threadIdx.x] = matrix[(long)row * width + threadIdx.x];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int width = 1024, rows = 2048;
    float *matrix = zeroed<float>(width * rows), *other = zeroed<float>(width * rows), *out = zeroed<float>(1);
    pick<<<1, 1>>>(matrix, width, bad ? rows + 640 : rows - 1, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaFree(matrix));
    CHECK(cudaFree(other));
    CHECK(cudaFree(out));
}
