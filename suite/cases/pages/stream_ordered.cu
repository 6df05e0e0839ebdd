// bug: a kernel reads past the end of a buffer that was allocated in its stream
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z4copyPKiPii error=700 at=0 size=4096 live
#include "failed.h"

__global__ void copy(const int *from, int *to, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i % 1024] = from[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *to = zeroed<int>(1024);
    // Memory goes from one round to the next.
    for (int round = 0; round < 40; round++) {
        int *from = nullptr;
        CHECK(cudaMallocAsync(&from, 4096, stream));
        CHECK(cudaMemsetAsync(from, round, 4096, stream));
        copy<<<1, 128, 0, stream>>>(from, to, 1024 + (bad && round == 30));  // BUG
        if (bad && round == 30) {
            EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
            return 0;
        }
        CHECK(cudaFreeAsync(from, stream));
    }
    FINISH();
    print_digest("to", to, 1024);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(to));
}
