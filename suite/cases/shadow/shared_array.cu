// bug: a write past the end of one shared array reaches the next, through a pointer of any space, too
// run: protect=shadow
// expect: rule=shared-out-of-bounds-write function=halves size=256
#include "case.h"

__device__ __noinline__ int sum(const int *values, int n) {
    int total = 0;
    for (int i = 0; i < n; i++) total += values[i];
    return total;
}

__global__ void halves(const int *in, int *out, int last) {
    __shared__ int low[64];
    __shared__ int high[64];
    int i = threadIdx.x;
    high[i] = in[i] / 2;
    low[i == 63 ? last : i] = in[i] & 1;  // BUG
    __syncthreads();
    if (i < 2) out[i] = sum(i ? high : low, 63);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(64)), *out = zeroed<int>(2);
    halves<<<1, 64>>>(in, out, 63 + bad);
    FINISH();
    print_digest("out", out, 2);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
