// bug: a kernel reads a small buffer that was freed in stream order, through a pointer in memory
// run: protect=shadow shadow-encoding=128
// expect: rule=use-after-free function=gather size=3000
#include "case.h"

__global__ void gather(int *const *where, int *out) {
    out[threadIdx.x] = where[0][threadIdx.x];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *old = nullptr;
    CHECK(cudaMallocAsync(&old, 3000, stream));
    CHECK(cudaMemsetAsync(old, 1, 3000, stream));
    if (bad) CHECK(cudaFreeAsync(old, stream));
    CHECK(cudaStreamSynchronize(stream));
    int **where = upload(std::vector<int *>{old});
    int *out = zeroed<int>(128);
    for (int round = 0; round < 100; round++) {
        int *other = nullptr;
        CHECK(cudaMallocAsync(&other, 3000, stream));
        CHECK(cudaMemsetAsync(other, round, 3000, stream));
        CHECK(cudaFreeAsync(other, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    gather<<<1, 128, 0, stream>>>(where, out);
    FINISH();
    if (!bad) {
        print_digest("out", out, 128);
        CHECK(cudaFreeAsync(old, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(where));
    CHECK(cudaFree(out));
}
