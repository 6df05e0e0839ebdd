// Memory comes from ALLOCATE.
#pragma once
#include "case.h"

__global__ void scale(const int *in, int *out, int n, long long offset) {
    int i = threadIdx.x;
    if (i < n)
        out[i + offset] = in[i] * 3;  // BUG
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
    int *first = make(n), *second = make(n), *third = make(n), *other = make(n);
    // The last thread is one element past the end.
    const long long offset = bad;
    scale<<<1, 256>>>(other, first, n, offset);
    FINISH();
    print_digest("first", first, n);
    print_digest("second", second, n);
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
    CHECK(cudaFree(third));
    CHECK(cudaFree(other));
}
