// bug: a row of a matrix is read on into the next row
// annotated
// expect: rule=intra-allocation-out-of-bounds-read function=row_sums size=160
#include "annotate.h"

template <bool annotated>
__global__ void row_sums(const float *matrix, float *out, int columns, int upto) {
    const float *row = part<annotated>(matrix + columns * threadIdx.x, columns * sizeof(float));
    float sum = 0;
    for (int c = 0; c < upto; c++) sum += row[c];  // BUG
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *matrix = upload(counting<float>(41 * 40));
    float *out = zeroed<float>(40);
    auto kernel = is_annotated(argc, argv) ? row_sums<true> : row_sums<false>;
    kernel<<<1, 40>>>(matrix, out, 40, 40 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 40);
    CHECK(cudaFree(matrix));
    CHECK(cudaFree(out));
}
