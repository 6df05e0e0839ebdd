// bug: a kernel reads far past the end of a large buffer, where no memory is
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=gather size=6291456
#include "case.h"

__global__ void gather(const int *in, int *out, int step, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[(size_t)i * step];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int count = 3 << 19;
    int *in = zeroed<int>(count), *out = zeroed<int>(1024);
    // The last one lies a third of the buffer behind its end.
    gather<<<1, 128>>>(in, out, count / 768, bad ? 1024 : 768);
    FINISH();
    if (!bad) print_digest("out", out, 768);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
