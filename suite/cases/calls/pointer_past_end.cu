// bug: a function pointer is read behind the end of a table, and the call ends the kernel
// expect: rule=global-out-of-bounds-read function=apply size=64
// expect: rule=kernel-failed kernel=_Z5applyPPFiiEPii
#include "case.h"
#include "failed.h"

typedef int (*Step)(int);

__device__ int twice(int x) { return 2 * x; }
__device__ int next(int x) { return x + 1; }

__global__ void fill(Step *steps) { steps[threadIdx.x] = threadIdx.x & 1 ? twice : next; }

__global__ void apply(Step *steps, int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = steps[i](data[i]);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Step *steps = zeroed<Step>(8);
    int *data = upload(counting<int>(32));
    fill<<<1, 8>>>(steps);
    apply<<<1, 32>>>(steps, data, 8 + bad);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaSuccess);  // BUG
        return 0;
    }
    FINISH();
    print_digest("data", data, 32);
    CHECK(cudaFree(steps));
    CHECK(cudaFree(data));
}
