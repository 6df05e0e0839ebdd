// bug: a matrix fragment is loaded from the odd element of a buffer
// expect: rule=misaligned-access function=product size=1024
#include "case.h"
#include <mma.h>

__global__ void product(const half *a, const half *b, float *out, int first) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::load_matrix_sync(left, a + first, 16);  // BUG
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(out, sum, 16, wmma::mem_row_major);
}

int main(int argc, char **argv) {
    half *a = zeroed<half>(512), *b = zeroed<half>(256);
    float *out = zeroed<float>(256);
    product<<<1, 32>>>(a, b, out, is_bad(argc, argv) ? 1 : 16);
    FINISH();
    print_digest("out", out, 256);
}
