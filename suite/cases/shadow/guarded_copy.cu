// bug: a kernel copies one byte too many, under a condition that some threads do not meet
// run: protect=shadow redzone-min=1k
// expect: rule=global-out-of-bounds-write function=copy size=100
#include "case.h"

__global__ void copy(const char *in, char *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (in[i % 100] != 'b' || i % 2) out[i] = in[i % 100];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<char> text(100);
    for (int i = 0; i < 100; i++) text[i] = "abc"[i % 3];
    char *in = upload(text), *out = zeroed<char>(100);
    copy<<<1, 32>>>(in, out, 100 + bad);
    FINISH();
    print_digest("out", out, 100);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
