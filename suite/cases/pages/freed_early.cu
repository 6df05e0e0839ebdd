// bug: a kernel reads a table right after it was freed
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z6gatherPKiPi error=700 size=512
#include "failed.h"

__global__ void gather(const int *table, int *out) {
    out[threadIdx.x] = table[127 - threadIdx.x];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *table = upload(counting<int>(128)), *out = zeroed<int>(128);
    if (bad) CHECK(cudaFree(table));
    gather<<<1, 128>>>(table, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 128);
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
}
