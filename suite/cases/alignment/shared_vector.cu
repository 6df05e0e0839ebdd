// bug: a tile with a row of 33 floats is read as float4
// expect: rule=misaligned-access function=tile size=4224
#include "case.h"

__global__ void tile(float *out, int fours) {
    __shared__ __align__(16) float rows[32 * 33];
    for (int i = threadIdx.x; i < 32 * 33; i += 32) rows[i] = i;
    __syncthreads();
    float sum = 0;
    const float *row = rows + 33 * threadIdx.x;
    if (fours) {
        for (int i = 0; i < 32; i += 4) {
            float4 four = *reinterpret_cast<const float4 *>(row + i);  // BUG
            sum += four.x + four.y + four.z + four.w;
        }
    } else {
        for (int i = 0; i < 32; ++i) sum += row[i];
    }
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    float *out = zeroed<float>(32);
    tile<<<1, 32>>>(out, is_bad(argc, argv));
    FINISH();
    print_digest("out", out, 32);
}
