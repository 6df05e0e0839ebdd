// bug: three of four words are read at once from an array of words
// build: arch=80
// expect: rule=misaligned-access function=norms size=2048
#include "case.h"

__global__ void norms(const float *in, float *out, int pitch) {
    float x, y, z;
    asm volatile("ld.global.v4.f32 {%0, %1, %2, _}, [%3];" : "=f"(x), "=f"(y), "=f"(z) : "l"(__cvta_generic_to_global(in + pitch * threadIdx.x)) : "memory");  // BUG
    out[threadIdx.x] = x + y + z;
}

int main(int argc, char **argv) {
    float *in = upload(counting<float>(512));
    float *out = zeroed<float>(32);
    norms<<<1, 32>>>(in, out, is_bad(argc, argv) ? 3 : 4);
    FINISH();
    print_digest("out", out, 32);
}
