// Memory comes from ALLOCATE.
#pragma once
#include "case.h"

__global__ void sum(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] += in[i];  // BUG
}

int *make(int n) {
    int *buffer = nullptr;
    CHECK(ALLOCATE(&buffer, n * sizeof(int)));
    CHECK(cudaMemset(buffer, 1, n * sizeof(int)));
    return buffer;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    int *in = make(n);
    int *out = zeroed<int>(n);
    sum<<<1, 256>>>(in, out, n);
    FINISH();
    if (bad) CHECK(cudaFree(in));
    sum<<<1, 256>>>(in, out, n);
    FINISH();
    print_digest("out", out, n);
    if (!bad) CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
