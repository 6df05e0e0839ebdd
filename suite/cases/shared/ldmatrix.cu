// bug: ldmatrix is given the address of a row behind the shared tile
// expect: rule=shared-out-of-bounds-read function=load_rows size=128
#include "case.h"

__global__ void load_rows(unsigned *out, int shift) {
    __shared__ __align__(16) unsigned short tile[8][8];
    int i = threadIdx.x;
    tile[i / 4][2 * (i % 4)] = i;
    tile[i / 4][2 * (i % 4) + 1] = 100 + i;
    __syncthreads();
    unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(&tile[0][0])) + 16 * (i % 8 + shift);
    unsigned value;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(value) : "r"(row));  // BUG
    out[i] = value;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned *out = zeroed<unsigned>(32);
    load_rows<<<1, 32>>>(out, bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
