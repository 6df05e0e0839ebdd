// The other file of linked_main.cu.
#include <cstdio>
#include <cuda_runtime.h>

__device__ int shared_counter = 100;
__device__ int scale(int x) { return x * 3 + 1; }
__global__ void second() { atomicAdd(&shared_counter, 1000); }

void report() {
    int n = 0;
    second<<<1, 1>>>();
    printf("%s\n", cudaGetErrorString(cudaMemcpyFromSymbol(&n, shared_counter, 4)));
    printf("counter %d\n", n);
}
