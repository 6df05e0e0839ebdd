// bug: sums of a matrix product are stored behind a counter of four bytes
// expect: rule=misaligned-access function=product size=2048
#include "case.h"
#include <mma.h>

__global__ void product(const half *a, float *out, int first) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 3.0f);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, a, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(out + first, sum, 16, wmma::mem_row_major);  // BUG
}

int main(int argc, char **argv) {
    half *a = zeroed<half>(256);
    float *out = zeroed<float>(512);
    product<<<1, 32>>>(a, out, is_bad(argc, argv) ? 1 : 8);
    FINISH();
    print_digest("out", out, 512);
}
