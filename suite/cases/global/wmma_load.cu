// bug: a matrix fragment is loaded from global memory with a leading dimension of another matrix
// expect: rule=global-out-of-bounds-read function=product size=512
#include "case.h"
#include <mma.h>

__global__ void product(const half *a, const half *b, float *out, int leading) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::load_matrix_sync(left, a, leading);  // BUG
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(out, sum, 16, wmma::mem_row_major);
}

int main() {
    half *a = zeroed<half>(256), *b = zeroed<half>(256);
    float *out = zeroed<float>(256);
    // One row of the other matrix is as long as all of this one.
    product<<<1, 32>>>(a, b, out, bad ? 8192 : 16);
    FINISH();
    print_digest("out", out, 256);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(out));
}
