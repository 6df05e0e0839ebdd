// bug: a kernel writes past the end of a buffer of several megabytes, beyond what canaries reach
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z4fillPdlld error=700 at=8192 size=6291456 live
#include "failed.h"

__global__ void fill(double *out, long n, long at, double value) {
    for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = value;
    if (blockIdx.x == 0 && threadIdx.x == 0) out[at] = value;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const long n = 6 << 17;
    double *out = zeroed<double>(n), *other = zeroed<double>(n);
    fill<<<8, 128>>>(out, n, bad ? n + 1024 : n - 1, 1.5);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, n);
    print_digest("other", other, n);
    CHECK(cudaFree(out));
    CHECK(cudaFree(other));
}
