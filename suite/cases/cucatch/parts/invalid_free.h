// Memory comes from ALLOCATE.
#pragma once
#include "case.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 250;
    int *data = nullptr;
    CHECK(ALLOCATE(&data, n * sizeof(int)));
    fill<<<1, 256>>>(data, n);
    FINISH();
    print_digest("data", data, n);
    if (bad) TRY(cudaFree(data + 64));  // BUG
    CHECK(cudaFree(data));
}
