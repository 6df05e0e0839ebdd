// bug: a wild pointer to global memory, where only shared memory is checked
// run: check-only=shared
// expect: rule=kernel-failed kernel=_Z6gatherPKPKiPi error=700
#include "failed.h"

__global__ void gather(const int *const *rows, int *out) {
    __shared__ int sum[32];
    sum[threadIdx.x] = *rows[threadIdx.x];  // BUG
    __syncthreads();
    out[threadIdx.x] = sum[31 - threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *row = upload(counting<int>(32));
    std::vector<const int *> pointers(32, row + 31);
    if (bad) pointers[17] = reinterpret_cast<const int *>(0x123400000000);
    const int **rows = upload(pointers);
    int *out = zeroed<int>(32);
    gather<<<1, 32>>>(rows, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(row));
    CHECK(cudaFree(rows));
    CHECK(cudaFree(out));
}
