#include "case.h"

constexpr int WIDTH = 64, HEIGHT = 64, FIRST = 100, PLANES = 8;
constexpr size_t PLANE = WIDTH * HEIGHT;

// Planes have the numbers that they have in the whole volume.
__global__ void scale(const float *in, float *out, int first, int end) {
    const int z = first + blockIdx.y;
    if (z >= end) return;
    const size_t at = z * PLANE + blockIdx.x * WIDTH + threadIdx.x;
    out[at] = z >= FIRST ? in[at] * 2 : 0;  // BUG
}

int main() {
    std::vector<float> values(PLANES * PLANE, 1.5f);
    float *in = upload(values), *other = upload(values), *out = zeroed<float>(PLANES * PLANE);
    // C++ knows no such pointers: they lie 1.6 MB before their buffers.
    const float *all_in = in - FIRST * PLANE;
    float *all_out = out - FIRST * PLANE;
    const dim3 blocks(HEIGHT, PLANES);
    scale<<<blocks, WIDTH>>>(all_in, all_out, FIRST - bad, FIRST + PLANES - bad);
    FINISH();
    if (!bad) print_digest("out", out, PLANES * PLANE);
    print_digest("other", other, PLANES * PLANE);
}
