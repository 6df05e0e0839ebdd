#pragma once
#include "case.h"

__global__ void pack(float *out, int last, int pick) {
    __align__(16) float values[14];
    for (int i = 0; i < 14; i++) values[i] = i;
    float4 four = make_float4(1, 2, 3, 4);
    reinterpret_cast<float4 *>(values)[last] = four;  // BUG
    out[threadIdx.x] = values[pick] + values[pick + 4];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *out = zeroed<float>(32);
    pack<<<1, 32>>>(out, 2 + bad, 7);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
