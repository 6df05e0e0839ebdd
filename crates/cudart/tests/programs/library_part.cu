// A library with device code and, as nvcc makes it, a static runtime.
#include <cstdio>
#include <cuda_runtime.h>

static __global__ void work(int *p) { *p *= 4; }

void in_library(int *p) {
    int n = 0;
    work<<<1, 1>>>(p);
    cudaError_t e = cudaMemcpy(&n, p, sizeof n, cudaMemcpyDeviceToHost);
    printf("library: %s %d\n", cudaGetErrorString(e), n);
}
