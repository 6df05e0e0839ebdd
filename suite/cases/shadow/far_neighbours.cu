// bug: of three accesses that share a check and span most of a block, the last one is outside
// run: protect=shadow prove=off
// expect: rule=global-out-of-bounds-read function=spread size=8000
#include "case.h"

__global__ void spread(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] + in[i + 30] + in[i + 60];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *in = upload(counting<float>(2000)), *out = zeroed<float>(2000);
    spread<<<16, 128>>>(in, out, 1940 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 1940);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
