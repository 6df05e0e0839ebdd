// bug: an index that is read from memory is one too large; all other accesses are proved
// expect: rule=global-out-of-bounds-read function=gather size=400
#include "case.h"

// Only what the indices reach carries a check where the rest is proved.
__global__ void gather(const float *values, const int *indices, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = out[i];
    for (int k = 0; k < 3; k++) sum += values[indices[3 * i + k]];  // BUG
    out[i] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 100;
    std::vector<int> at(3 * n);
    for (int i = 0; i < 3 * n; i++) at[i] = (7 * i) % n;
    at[3 * n - 1] = n - 1 + bad;
    float *values = upload(counting<float>(n)), *out = zeroed<float>(n);
    int *indices = upload(at);
    // What is launched again is recognised.
    for (int round = 0; round < 4; round++) gather<<<2, 64>>>(values, indices, out, n);
    FINISH();
    print_digest("out", out, n - 1);
    CHECK(cudaFree(values));
    CHECK(cudaFree(indices));
    CHECK(cudaFree(out));
}
