// bug: the left neighbour of a shared tile's first element is read
// expect: rule=shared-out-of-bounds-read function=smooth size=512
#include "case.h"

__global__ void smooth(const float *in, float *out, int n, int first) {
    __shared__ float guard[32];
    __shared__ float tile[128];
    int i = threadIdx.x;
    guard[i % 32] = 1.0f;
    tile[i] = in[i];
    __syncthreads();
    if (i >= first)
        out[i] = 0.5f * (tile[i - 1] + tile[i]) * guard[i % 32];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 128;
    float *in = upload(counting<float>(n));
    float *out = zeroed<float>(n);
    smooth<<<1, n>>>(in, out, n, bad ? 0 : 1);
    FINISH();
    print_digest("out", out + 1, n - 1);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
