// bug: neighbours that share a check lie in two blocks, and at the end of the buffer one is outside
// run: protect=shadow prove=off
// expect: rule=global-out-of-bounds-read function=smooth size=2048
#include "case.h"

__global__ void smooth(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // Between the first and the last lie seven edges of blocks.
    if (i > 0 && i < n - 1) out[i] = in[i - 1] + in[i] + in[i + 1];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *in = upload(counting<float>(512)), *out = zeroed<float>(516);
    smooth<<<5, 128>>>(in, out, 512 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 512);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
