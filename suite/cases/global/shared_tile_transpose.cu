// bug: a tiled transpose forgets that its matrix is not a multiple of the tile
// expect: rule=global-out-of-bounds-write function=transpose size=13200
#include "case.h"

__global__ void transpose(const float *in, float *out, int width, int height, int limit) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < height && y < limit)
        out[y * height + x] = tile[threadIdx.x][threadIdx.y];  // BUG
}

int main() {
    const int width = 60, height = 55;
    float *in = upload(counting<float>(width * height));
    float *out = zeroed<float>(width * height);
    dim3 grid((width + 15) / 16, (height + 15) / 16);
    transpose<<<grid, dim3(16, 16)>>>(in, out, width, height, width + bad);
    FINISH();
    print_digest("out", out, width * height);
}
