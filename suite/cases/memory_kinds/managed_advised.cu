// bug: managed memory that was advised and prefetched is read past its end
// expect: rule=global-out-of-bounds-read function=sum size=40000
#include "case.h"

__global__ void sum(const int *in, int *out, int n) {
    int total = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += in[i];  // BUG
    out[threadIdx.x] = total;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 10000;
    int *in = nullptr;
    CHECK(cudaMallocManaged(&in, n * sizeof(int)));
    for (int i = 0; i < n; i++) in[i] = i;
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    CHECK(cudaMemAdvise(in, n * sizeof(int), cudaMemAdviseSetReadMostly, device));
    CHECK(cudaMemPrefetchAsync(in, n * sizeof(int), device, 0, nullptr));
    int *out = zeroed<int>(128);
    sum<<<1, 128>>>(in, out, n + bad);
    FINISH();
    if (!bad) print_digest("out", out, 128);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
