// bug: a kernel of which there is only machine code reads past the end of its buffer
// build: arch=90 machine-code
// run: protect=auto
// expect: rule=kernel-failed kernel=_Z3dotPKfS0_iPf error=700 at=0 size=8192
#include "failed.h"

__global__ void dot(const float *a, const float *b, int n, float *out) {  // BUG
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += a[i] * b[i];
    atomicAdd(out, sum);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *a = upload(counting<float>(2049)), *b = upload(counting<float>(2048)), *out = zeroed<float>(1);
    dot<<<1, 1>>>(a, b, 2048 + bad, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(out));
}
