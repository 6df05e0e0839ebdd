// bug: an access that other launches are proved for leaves its buffer in one launch
// expect: rule=global-out-of-bounds-write function=scatter size=400
#include "case.h"

// Only what the indices reach carries a check where the rest is proved, which it
// is not where `n` is too large for `counts`.
__global__ void scatter(const int *indices, int *bins, int *counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(bins + indices[i % 100], 1);
    counts[i] += 1;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 100;
    std::vector<int> at(n);
    for (int i = 0; i < n; i++) at[i] = i % 8;
    int *indices = upload(at), *bins = zeroed<int>(8), *counts = zeroed<int>(n);
    for (int round = 0; round < 6; round++) {
        // Once it is one too many, among launches that are alike.
        int this_n = n + (bad && round == 4);
        scatter<<<2, 64>>>(indices, bins, counts, this_n);
    }
    FINISH();
    print_digest("counts", counts, n);
    if (!bad) print_digest("bins", bins, 8);
    CHECK(cudaFree(indices));
    CHECK(cudaFree(bins));
    CHECK(cudaFree(counts));
}
