// bug: a matrix fragment is stored with a leading dimension too large for its shared tile
// expect: rule=shared-out-of-bounds-write function=product size=1024
#include "case.h"
#include <mma.h>

__global__ void product(const half *a, const half *b, float *out, int leading) {
    using namespace nvcuda;
    __shared__ __align__(32) float tile[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(tile, sum, leading, wmma::mem_row_major);  // BUG
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 32) out[i] = tile[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    half *a = zeroed<half>(256), *b = zeroed<half>(256);
    float *out = zeroed<float>(256);
    product<<<1, 32>>>(a, b, out, bad ? 20 : 16);
    FINISH();
    print_digest("out", out, 256);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(out));
}
