// bug: a kernel writes past the end of a buffer whose address it finds in memory
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z4rowsPPfii at=0 size=400
#include "case.h"

__global__ void rows(float **table, int count, int n) {  // BUG
    float *row = table[blockIdx.x];
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = blockIdx.x + i;
    (void)count;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int count = 20, n = 100;
    std::vector<float *> table(count);
    for (auto &row : table) row = zeroed<float>(n);
    float **device = upload(table);
    rows<<<count, 64>>>(device, count, n + bad);
    FINISH();
    for (auto *row : table) {
        print_digest("row", row, n);
        CHECK(cudaFree(row));
    }
    CHECK(cudaFree(device));
}
