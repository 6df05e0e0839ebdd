// bug: an asynchronous copy to shared memory reads behind its source
// build: arch=90
// expect: rule=global-out-of-bounds-read function=staged size=4080
#include "case.h"
#include <cuda_pipeline.h>

__global__ void staged(const int4 *in, int4 *out, int n) {
    __shared__ int4 tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) __pipeline_memcpy_async(&tile[threadIdx.x], &in[i], sizeof(int4));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    if (i < n) out[i] = tile[threadIdx.x];
}

int main() {
    const int n = 255;
    int4 *in = reinterpret_cast<int4 *>(upload(counting<int>(n * 4)));
    int4 *out = zeroed<int4>(n + 1);
    staged<<<4, 64>>>(in, out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
