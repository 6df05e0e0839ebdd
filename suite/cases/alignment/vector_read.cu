// bug: a row whose length is no multiple of four is read as float4, which a check of the wrong row allows
// expect: rule=misaligned-access function=rows size=4040
#include "case.h"

__device__ bool is_aligned(const float *row) { return reinterpret_cast<size_t>(row) % 16 == 0; }

// Rows are read in fours where they are aligned, else one by one.
__global__ void rows(const float *matrix, float *out, int columns, int shift) {
    const float *row = matrix + blockIdx.x * columns;
    float sum = 0;
    if (is_aligned(row - shift * columns)) {
        for (int i = 4 * threadIdx.x; i + 4 <= columns; i += 4 * blockDim.x) {
            float4 four = *reinterpret_cast<const float4 *>(row + i);  // BUG
            sum += four.x + four.y + four.z + four.w;
        }
    } else {
        for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
    }
    atomicAdd(&out[blockIdx.x], sum);
}

int main(int argc, char **argv) {
    const int columns = 101, count = 10;
    float *matrix = upload(counting<float>(columns * count));
    float *out = zeroed<float>(count);
    rows<<<count, 32>>>(matrix, out, columns, is_bad(argc, argv));
    FINISH();
    print_digest("out", out, count);
}
