// bug: a cooperative launch whose last phase reads the partial sum of a block that is not there
// expect: rule=global-out-of-bounds-read function=total size=16
#include "case.h"
#include <cooperative_groups.h>

__global__ void total(const int *in, int *partial, int *out, int blocks) {
    int sum = 0;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) sum += in[blockIdx.x * 256 + i];
    __shared__ int sums[32];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 32; i++) sum += sums[i];
        partial[blockIdx.x] = sum;
    }
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (int b = 0; b < blocks; b++) *out += partial[b];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int blocks = 4 + bad;
    int *in = upload(counting<int>(1024));
    int *partial = zeroed<int>(4);
    int *out = zeroed<int>(1);
    void *arguments[] = {&in, &partial, &out, &blocks};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(total), dim3(4), dim3(32), arguments, 0, nullptr));
    FINISH();
    if (!bad) print_digest("out", out, 1);
    CHECK(cudaFree(in));
    CHECK(cudaFree(partial));
    CHECK(cudaFree(out));
}
