// bug: a tile in dynamic shared memory is one row short; it is written, and read behind a barrier
// expect: rule=shared-out-of-bounds-write function=columns
// expect: rule=shared-out-of-bounds-read function=columns
#include "case.h"

// The threads that write the last row also read it: what they do first is reported, too.
__global__ void columns(const float *in, float *out) {
    extern __shared__ float tile[];
    const int row = threadIdx.x / 32, column = threadIdx.x % 32;
    tile[row * 32 + column] = in[threadIdx.x];  // BUG
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 32; i++) sum += tile[i * 32 + column] * (i + row);  // BUG
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *in = upload(counting<float>(1024));
    float *out = zeroed<float>(1024);
    columns<<<1, 1024, 32 * (32 - bad) * sizeof(float)>>>(in, out);
    FINISH();
    if (!bad) print_digest("out", out, 1024);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
