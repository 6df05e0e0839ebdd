// bug: an index into a local array is off by so much that the address wraps at 4 GiB
// expect: rule=local-out-of-bounds-read function=select size=64
#include "case.h"

__global__ void select(const double *in, double *out, long long index) {
    double values[8];
    for (int v = 0; v < 8; v++) values[v] = in[v] * 2;
    out[0] = values[index];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    double *in = upload(counting<double>(8)), *out = zeroed<double>(1);
    select<<<1, 1>>>(in, out, bad ? (1ll << 29) + 3 : 3);
    FINISH();
    if (!bad) print_digest("out", out, 1);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
