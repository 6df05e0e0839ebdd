// bug: a kernel reads the element after the last of its buffer
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z3sumPKiiPi error=700 at=0 size=4096 live
#include "failed.h"

__global__ void sum(const int *data, int n, int *out) {
    int total = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += data[i];  // BUG
    atomicAdd(out, total);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *first = zeroed<int>(1024), *data = upload(counting<int>(1024)), *out = zeroed<int>(1);
    sum<<<1, 32>>>(data, 1024 + bad, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaFree(first));
    CHECK(cudaFree(data));
    CHECK(cudaFree(out));
}
