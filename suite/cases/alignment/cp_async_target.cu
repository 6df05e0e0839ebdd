// bug: eight bytes at once are copied to every third word of a shared tile
// build: arch=80
// expect: rule=misaligned-access function=stage size=520
#include "case.h"

__global__ void stage(const float *in, float *out, int pitch) {
    __shared__ __align__(16) float tile[130];
    unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + pitch * threadIdx.x));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(in + 2 * threadIdx.x) : "memory");  // BUG
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = tile[pitch * threadIdx.x];
}

int main(int argc, char **argv) {
    float *in = upload(counting<float>(64));
    float *out = zeroed<float>(32);
    stage<<<1, 32>>>(in, out, is_bad(argc, argv) ? 3 : 2);
    FINISH();
    print_digest("out", out, 32);
}
