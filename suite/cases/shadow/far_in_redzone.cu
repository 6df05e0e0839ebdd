// bug: a kernel reads 24 KiB past the end of a buffer of 64 KiB, whose redzones are half as large
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=pick size=65536
#include "case.h"

__global__ void pick(const int *in, const int *at, int *out) {
    out[threadIdx.x] = in[at[threadIdx.x]];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 16384;
    std::vector<int> where = counting<int>(32);
    where[7] = bad ? n + 6144 : n - 1;
    int *in = upload(counting<int>(n)), *at = upload(where), *out = zeroed<int>(32);
    pick<<<1, 32>>>(in, at, out);
    FINISH();
    if (!bad) print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(at));
    CHECK(cudaFree(out));
}
