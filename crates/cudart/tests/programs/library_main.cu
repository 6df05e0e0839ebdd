// Device memory of the program, used by a library (library_part.cu).
#include <cstdio>
#include <cuda_runtime.h>

void in_library(int *p);

static __global__ void work(int *p) { *p = 3; }

int main() {
    int n = 0, *p;
    cudaMalloc(&p, sizeof n);
    work<<<1, 1>>>(p);
    cudaError_t e = cudaMemcpy(&n, p, sizeof n, cudaMemcpyDeviceToHost);
    printf("main: %s %d\n", cudaGetErrorString(e), n);
    in_library(p);
    cudaFree(p);
    return 0;
}
