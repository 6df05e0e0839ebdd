// bug: a warp loads a tile of a matrix whose last rows lie past the end of the buffer
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=product size=15872
#include "case.h"
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int kColumns = 128;

__global__ void product(const half *a, float *out, int tiles) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::fill_fragment(right, __float2half(1.0f));
    for (int tile = 0; tile < tiles; tile++) {
        wmma::load_matrix_sync(left, a + tile * 15 * kColumns, kColumns);  // BUG
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(out, sum, 16, wmma::mem_row_major);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    // 62 rows: four tiles of 16, each beginning 15 rows after the one before, reach 61.
    std::vector<half> values(62 * kColumns);
    for (size_t i = 0; i < values.size(); i++) values[i] = __float2half(float(i % 7));
    half *a = upload(values);
    float *out = zeroed<float>(256);
    product<<<1, 32>>>(a, out, bad ? 5 : 4);
    FINISH();
    if (!bad) print_digest("out", out, 256);
    CHECK(cudaFree(a));
    CHECK(cudaFree(out));
}
