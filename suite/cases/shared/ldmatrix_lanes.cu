// bug: two matrices are loaded from a tile that has the rows of one and a half (idle lanes point anywhere)
// expect: rule=shared-out-of-bounds-read function=load_rows size=192
#include "case.h"

__global__ void load_rows(unsigned *out, int rows) {
    __shared__ __align__(16) unsigned short tile[12][8];
    int i = threadIdx.x;
    for (int row = 0; row < 12; row++)
        if (i < 8) tile[row][i] = row * 8 + i;
    __syncthreads();
    unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(&tile[0][0]));
    // Lanes whose address is not used have one that is wrong.
    unsigned row = start + (i < rows ? 16 * i : 0x10000 + 16 * i);
    unsigned half_row = start + (i < 16 ? 16 * (i % (rows == 8 ? 12 : 16)) : 0xfff0);
    unsigned value, left, right;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(value) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(left), "=r"(right) : "r"(half_row));  // BUG
    out[i] = value + 3 * left + 5 * right;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned *out = zeroed<unsigned>(32);
    load_rows<<<1, 32>>>(out, 8 + bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
