// bug: a kernel copies one element too many, of which the read is not to be checked, and the write is
// run: protect=shadow check-only=all,no-reads
// expect: rule=global-out-of-bounds-write function=copy size=1000
#include "case.h"

__global__ void copy(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(250)), *out = zeroed<int>(250);
    copy<<<1, 256>>>(in, out, 250 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 250);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
