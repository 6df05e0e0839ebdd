// bug: a kernel reads the first element past the end, in the block that the buffer ends in
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=double_all size=400
#include "case.h"

__global__ void double_all(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i % 100] = 2 * in[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(100)), *out = zeroed<int>(100);
    double_all<<<1, 128>>>(in, out, 100 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 100);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
