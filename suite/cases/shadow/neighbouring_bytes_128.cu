// bug: bytes that share a check end one byte after a buffer that ends one byte into a block of 128
// run: protect=shadow prove=off shadow-encoding=128
// expect: rule=global-out-of-bounds-read function=sum_four size=129
#include "case.h"

__global__ void sum_four(const unsigned char *in, int *out, int first) {
    int i = first + threadIdx.x;
    out[threadIdx.x] = in[i] + in[i + 1] + in[i + 2] + in[i + 3];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned char *in = upload(std::vector<unsigned char>(129, 3));
    int *out = zeroed<int>(15);
    sum_four<<<1, 15>>>(in, out, 111 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 15);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
