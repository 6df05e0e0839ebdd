// bug: a table in shared memory is read at what a thread has loaded, one past its end
// expect: rule=shared-out-of-bounds-read function=lookup size=256
#include "case.h"

// The copy into the table, and the reads and writes of `data`, are proved.
__global__ void lookup(const int *table, int *data, int n) {
    __shared__ int shared[64];
    __shared__ int behind[64];
    shared[threadIdx.x] = table[threadIdx.x];
    behind[threadIdx.x] = -1;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int at = data[i];
        data[i] = shared[at] + behind[(unsigned)at % 64];  // BUG
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 200;
    std::vector<int> at(n);
    for (int i = 0; i < n; i++) at[i] = i % 64;
    at[n - 1] = 63 + bad;
    int *table = upload(counting<int>(64)), *data = upload(at);
    lookup<<<1, 64>>>(table, data, n);
    FINISH();
    print_digest("data", data, n - 1);
    CHECK(cudaFree(table));
    CHECK(cudaFree(data));
}
