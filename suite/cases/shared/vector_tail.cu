// bug: the last float4 of a shared array starts inside it and ends outside
// expect: rule=shared-out-of-bounds-read function=gather size=392
#include "case.h"

__global__ void gather(float *out, int n) {
    __shared__ __align__(16) float values[98];
    for (int i = threadIdx.x; i < 98; i += blockDim.x) values[i] = i;
    __syncthreads();
    int i = threadIdx.x;
    if (4 * i < n) {
        float4 four = reinterpret_cast<const float4 *>(values)[i];  // BUG
        out[i] = four.x + four.y;
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *out = zeroed<float>(32);
    gather<<<1, 32>>>(out, bad ? 98 : 96);
    FINISH();
    print_digest("out", out, 24);
    CHECK(cudaFree(out));
}
