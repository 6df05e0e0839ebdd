// bug: the last warp of a block stores its matrix behind the shared tile
// build: arch=90
// expect: rule=shared-out-of-bounds-write function=store_rows size=512
#include "case.h"

__global__ void store_rows(unsigned *out, int shift) {
    __shared__ __align__(16) unsigned short tile[32][8];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(&tile[0][0])) + 16 * (8 * (warp + shift) + lane % 8);
    unsigned value = threadIdx.x * 0x10001;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i / 8][i % 8] = 0;
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(value) : "memory");  // BUG
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x / 4][threadIdx.x % 4];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned *out = zeroed<unsigned>(128);
    store_rows<<<1, 128>>>(out, bad);
    FINISH();
    print_digest("out", out, 128);
    CHECK(cudaFree(out));
}
