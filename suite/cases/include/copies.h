// For cases about host copies: a kernel that uses what was copied, so that
// the program is a whole one.
#pragma once
#include "case.h"

__global__ void mix(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] ^ (i * 17);
}

// Prints a digest of what the kernel makes of `count` elements.
inline void use(const int *data, int count) {
    int *out = zeroed<int>(count);
    mix<<<(count + 127) / 128, 128>>>(data, out, count);
    FINISH();
    print_digest("mixed", out, count);
    CHECK(cudaFree(out));
}
