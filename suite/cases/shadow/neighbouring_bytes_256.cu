// bug: bytes that share a check end after the only byte of a block of 256 that may be accessed
// run: protect=shadow prove=off
// expect: rule=global-out-of-bounds-read function=sum_four size=257
#include "case.h"

__global__ void sum_four(const unsigned char *in, int *out, int first) {
    int i = first + threadIdx.x;
    // The last byte is alone in its block: its shadow byte is that of none.
    out[threadIdx.x] = in[i] + in[i + 1] + in[i + 2] + in[i + 3];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned char *in = upload(std::vector<unsigned char>(257, 3));
    int *out = zeroed<int>(15);
    sum_four<<<1, 15>>>(in, out, 239 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 15);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
