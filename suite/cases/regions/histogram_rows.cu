// bug: several histograms lie in one allocation, and a count of one goes to the next
// annotated
// expect: rule=intra-allocation-out-of-bounds-atomic function=count size=64
#include "annotate.h"

template <bool annotated>
__global__ void count(const int *values, int *histograms, int n) {
    int *bins = part<annotated>(histograms + 16 * blockIdx.x, 16 * sizeof(int));
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        atomicAdd(bins + values[blockIdx.x * n + i], 1);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 64, rows = 3;
    std::vector<int> host(n * rows);
    for (int i = 0; i < n * rows; i++) host[i] = i * 5 % 16;
    host[70] = 15 + 2 * bad;
    int *values = upload(host);
    int *histograms = zeroed<int>(16 * rows);
    auto kernel = is_annotated(argc, argv) ? count<true> : count<false>;
    kernel<<<rows, 32>>>(values, histograms, n);
    FINISH();
    if (!bad) print_digest("histograms", histograms, 16 * rows);
    CHECK(cudaFree(values));
    CHECK(cudaFree(histograms));
}
