// Relocatable device code: a function and a variable of another file.
#include <cstdio>
#include <cuda_runtime.h>

extern __device__ int shared_counter;
extern __device__ int scale(int x);
void report();

__global__ void first(int *p) {
    p[threadIdx.x] = scale(threadIdx.x);
    atomicAdd(&shared_counter, 1);
}

int main() {
    int *p, h[4];
    printf("%s\n", cudaGetErrorString(cudaMalloc(&p, sizeof h)));
    first<<<1, 4>>>(p);
    printf("%s\n", cudaGetErrorString(cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost)));
    printf("%d %d %d %d\n", h[0], h[1], h[2], h[3]);
    report();
    return 0;
}
