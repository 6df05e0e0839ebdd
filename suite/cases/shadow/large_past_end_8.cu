// bug: a kernel reads the element after a large buffer, and other buffers of the program lie far away
// run: protect=shadow shadow-encoding=8 shadow-loads=always prove=off
// expect: rule=global-out-of-bounds-read function=scale size=6291460
#include "case.h"

__global__ void scale(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i % 1024] = in[i] * 2.0f;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int count = (3 << 19) + 1;
    float *in = zeroed<float>(count), *out = zeroed<float>(1024);
    scale<<<(count + 512) / 512, 512>>>(in, out, count + bad);
    FINISH();
    if (!bad) print_digest("out", out, 1024);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
