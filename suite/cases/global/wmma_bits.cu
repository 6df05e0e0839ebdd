// bug: a matrix of bits is read from one row too far, with a distance of rows that is in a register
// build: arch=80
// expect: rule=global-out-of-bounds-read function=product size=256
#include "case.h"
#include <mma.h>

using namespace nvcuda::wmma;
using experimental::precision::b1;

// 8 rows of 128 bits, 256 bits apart.
__global__ void product(const unsigned *a, const unsigned *b, int *c, int row) {
    fragment<matrix_a, 8, 8, 128, b1, row_major> left;
    fragment<matrix_b, 8, 8, 128, b1, col_major> right;
    fragment<accumulator, 8, 8, 128, int> sums;
    fill_fragment(sums, 0);
    load_matrix_sync(left, a + row * 8 + 4, 256);  // BUG
    load_matrix_sync(right, b, 128);
    bmma_sync(sums, left, right, sums, experimental::bmmaBitOpAND);
    store_matrix_sync(c, sums, 8, mem_row_major);
}

// 8 rows of 32 numbers of four bits.
__global__ void small(const unsigned *a, const unsigned *b, int *c) {
    fragment<matrix_a, 8, 8, 32, experimental::precision::u4, row_major> left;
    fragment<matrix_b, 8, 8, 32, experimental::precision::u4, col_major> right;
    fragment<accumulator, 8, 8, 32, int> sums;
    fill_fragment(sums, 0);
    load_matrix_sync(left, a, 64);
    load_matrix_sync(right, b, 32);
    mma_sync(sums, left, right, sums);
    store_matrix_sync(c, sums, 8, mem_row_major);
}

int main() {
    unsigned *a = upload(std::vector<unsigned>(64, 0xff00ffu));
    unsigned *b = upload(std::vector<unsigned>(32, 0xf0f0f0u));
    int *c = zeroed<int>(64), *d = zeroed<int>(64);
    product<<<1, 32>>>(a, b, c, bad);
    // The last byte of the last row is the last of the buffer.
    small<<<1, 32>>>(a + 4, b, d);
    FINISH();
    if (!bad) print_digest("c", c, 64);
    print_digest("d", d, 64);
}
