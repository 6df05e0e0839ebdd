// bug: a two-dimensional stencil reads the row above the first
// expect: rule=global-out-of-bounds-read function=blur size=16384
#include "case.h"

__global__ void blur(const float *in, float *out, int width, int height, int border) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y < border || y >= height - 1) return;
    float up = in[(y - 1) * width + x];  // BUG
    float here = in[y * width + x];
    float down = in[(y + 1) * width + x];
    out[y * width + x] = 0.25f * up + 0.5f * here + 0.25f * down;
}

int main() {
    const int width = 64, height = 64;
    float *in = upload(counting<float>(width * height));
    float *out = zeroed<float>(width * height);
    blur<<<dim3(2, 8), dim3(32, 8)>>>(in, out, width, height, 1 - bad);
    FINISH();
    print_digest("out", out + width, width * (height - 1));
}
