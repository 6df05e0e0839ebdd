// bug: a kernel writes to a freed buffer whose memory others have
// run: protect=pages pages-budget=0
// expect: rule=kernel-failed kernel=_Z4fillPii error=700 size=400
#include "failed.h"

__global__ void fill(int *out, int value) { out[threadIdx.x] = value; }  // BUG

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int *> buffers;
    for (int i = 0; i < 64; i++) buffers.push_back(zeroed<int>(100));
    if (bad) CHECK(cudaFree(buffers[20]));
    for (int i = 0; i < 20; i++) fill<<<1, 100>>>(buffers[i], i);
    CHECK(cudaDeviceSynchronize());
    fill<<<1, 100>>>(buffers[20], 20);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    for (int *buffer : buffers) print_digest("buffer", buffer, 100);
    for (int *buffer : buffers) CHECK(cudaFree(buffer));
}
