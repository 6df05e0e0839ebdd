// A kernel frees the same memory twice, in functions of their own.
#pragma once
#include "case.h"

__device__ __noinline__ int finish(int *list) {
    int first = list[0];
    free(list);
    return first;
}

__device__ __noinline__ void finish_again(void *list) {
    free(list);  // BUG
}

__global__ void run(int *out, int twice) {
    int *list = static_cast<int *>(malloc(64));
    if (!list) return;
    list[0] = threadIdx.x;
    out[threadIdx.x] = finish(list);
    if (twice) finish_again(list);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(4);
    run<<<1, 4>>>(out, bad);
    FINISH();
    print_digest("out", out, 4);
    CHECK(cudaFree(out));
}
