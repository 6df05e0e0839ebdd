// bug: the launch asks for the shared memory of one row less than the kernel uses
// expect: rule=shared-out-of-bounds-write function=rotate size=448
#include "case.h"

__global__ void rotate(const int *in, int *out, int rows) {
    extern __shared__ int rows_of_16[];
    for (int row = 0; row < rows; row++)
        rows_of_16[row * 16 + threadIdx.x] = in[row * 16 + threadIdx.x];  // BUG
    __syncthreads();
    for (int row = 1; row < rows; row++)
        out[row * 16 + threadIdx.x] = rows_of_16[(row - 1) * 16 + (threadIdx.x + 1) % 16];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int rows = 8;
    int *in = upload(counting<int>(rows * 16));
    int *out = zeroed<int>(rows * 16);
    rotate<<<1, 16, (rows - bad) * 16 * sizeof(int)>>>(in, out, rows);
    FINISH();
    print_digest("out", out, rows * 16);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
