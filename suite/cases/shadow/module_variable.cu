// bug: a read past the end of a variable of the module reaches the variable behind it
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=shade size=128
#include "case.h"

__device__ int palette[32];
__device__ int behind[32];

__global__ void paint(int seed) {
    palette[threadIdx.x] = seed + threadIdx.x;
    behind[threadIdx.x] = seed - threadIdx.x;
}

__global__ void shade(const int *which, int *out) { out[threadIdx.x] = palette[which[threadIdx.x]]; }  // BUG

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    auto which = counting<int>(32);
    which[31] = 31 + bad;
    int *indices = upload(which), *out = zeroed<int>(32);
    paint<<<1, 32>>>(7);
    shade<<<1, 32>>>(indices, out);
    FINISH();
    print_digest("out", out, 31);
    CHECK(cudaFree(indices));
    CHECK(cudaFree(out));
}
