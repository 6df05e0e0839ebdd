// bug: an address of 32 bits is loaded from an array, and indexed past the end of all shared memory
// expect: rule=shared-out-of-bounds-read function=gather
#include "case.h"

__global__ void gather(float *out, int n) {
    __shared__ float first[64], second[64];
    __shared__ unsigned where[2];
    const int t = threadIdx.x;
    first[t] = t;
    second[t] = 100 + t;
    if (t == 0) {
        where[0] = static_cast<unsigned>(__cvta_generic_to_shared(first));
        where[1] = static_cast<unsigned>(__cvta_generic_to_shared(second));
    }
    __syncthreads();
    float value;
    const unsigned address = where[t % 2] + 4 * (t % n * 2 + n - 32);
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));  // BUG
    out[t] = value;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *out = zeroed<float>(64);
    gather<<<1, 64>>>(out, bad ? 64 : 32);
    FINISH();
    if (!bad) print_digest("out", out, 64);
    CHECK(cudaFree(out));
}
