// bug: a stencil reads the element before the first of its buffer
// run: protect=pages pages-place=start
// expect: rule=kernel-failed kernel=_Z6smoothPKfPfii error=700 at=-4 size=1200 live
#include "failed.h"

__global__ void smooth(const float *in, float *out, int n, int from) {
    int i = threadIdx.x + from;
    if (i < n - 1) out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 300;
    float *in = upload(counting<float>(n)), *out = zeroed<float>(n);
    smooth<<<1, 320>>>(in, out, n, 1 - bad);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, n);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
