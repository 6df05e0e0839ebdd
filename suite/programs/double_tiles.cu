// about: a product of matrices of doubles by tensor core tiles of 8 x 8 x 4
// build: arch=80
// feature: tensor cores on doubles
#include "case.h"
#include <mma.h>

using namespace nvcuda;

constexpr int kSize = 32;

__global__ void product(const double *a, const double *b, double *c) {
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
    wmma::fill_fragment(sum, 0.5);
    const int row = blockIdx.y * 8, column = blockIdx.x * 8;
    for (int k = 0; k < kSize; k += 4) {
        wmma::load_matrix_sync(left, a + row * kSize + k, kSize);
        wmma::load_matrix_sync(right, b + column * kSize + k, kSize);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * kSize + column, sum, kSize, wmma::mem_row_major);
}

int main() {
    std::vector<double> a(kSize * kSize), b(kSize * kSize), c(kSize * kSize);
    for (int i = 0; i < kSize * kSize; i++) {
        a[i] = i % 13 - 6;
        b[i] = i % 7 - 3;
    }
    double *left = upload(a), *right = upload(b), *out = zeroed<double>(kSize * kSize);
    product<<<dim3(kSize / 8, kSize / 8), 32>>>(left, right, out);
    FINISH();
    CHECK(cudaMemcpy(c.data(), out, c.size() * sizeof(double), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int row = 0; row < kSize; row++)
        for (int column = 0; column < kSize; column++) {
            double sum = 0.5;
            for (int k = 0; k < kSize; k++) sum += a[row * kSize + k] * b[column * kSize + k];
            wrong += c[row * kSize + column] != sum;
        }
    print_digest("product", out, c.size());
    std::printf("%s\n", wrong ? "FAILED" : "all as on the host");
    CHECK(cudaFree(left));
    CHECK(cudaFree(right));
    CHECK(cudaFree(out));
    return wrong;
}
