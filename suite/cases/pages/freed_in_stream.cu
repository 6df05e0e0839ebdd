// bug: a kernel writes to memory that was freed in its stream, long after the stream has come there
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z4fillPii error=700 size=2048
#include "failed.h"

__global__ void fill(int *out, int value) {
    for (int i = threadIdx.x; i < 512; i += blockDim.x) out[i] = value;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *out = nullptr, *other = nullptr;
    CHECK(cudaMallocAsync(&out, 2048, stream));
    CHECK(cudaMallocAsync(&other, 2048, stream));
    fill<<<1, 128, 0, stream>>>(out, 1);
    fill<<<1, 128, 0, stream>>>(other, 2);
    if (bad) CHECK(cudaFreeAsync(out, stream));
    CHECK(cudaStreamSynchronize(stream));
    fill<<<1, 128, 0, stream>>>(out, 3);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 512);
    print_digest("other", other, 512);
    CHECK(cudaFreeAsync(out, stream));
    CHECK(cudaFreeAsync(other, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}
