// bug: a kernel reads a table that was freed hundreds of allocations ago
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z6gatherPKiPi error=700 size=9437184
#include "failed.h"

__global__ void gather(const int *table, int *out) {
    out[threadIdx.x] = table[(9 << 18) - 1 - threadIdx.x];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *table = zeroed<int>(9 << 18), *out = zeroed<int>(128);
    if (bad) CHECK(cudaFree(table));
    // (Each takes some milliseconds where programs share a device.)
    for (int round = 0; round < 600; round++) {
        int *other = nullptr;
        CHECK(cudaMalloc(&other, size_t(round % 7 + 1) << (round % 5 + 16)));
        CHECK(cudaFree(other));
    }
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
