// __managed__ variables, which host code touches before any call of its own.
#include <cstdio>
#include <cuda_runtime.h>

__managed__ int total = 3;
__managed__ float values[16];

__global__ void sum(int *extra) {
    atomicAdd(&total, (int)values[threadIdx.x]);
    if (threadIdx.x == 0) extra[1] = extra[0] * 2;
}

int main() {
    printf("total %d\n", total);
    for (int i = 0; i < 16; i++) values[i] = i;
    int *extra;
    printf("%s\n", cudaGetErrorString(cudaMallocManaged(&extra, 8)));
    extra[0] = 21;
    sum<<<1, 16>>>(extra);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    printf("total %d, extra %d\n", total, extra[1]);
    int copy = 0;
    printf("%s\n", cudaGetErrorString(cudaMemcpyFromSymbol(&copy, total, 4)));
    printf("copy %d\n", copy);
    cudaPointerAttributes a;
    cudaPointerGetAttributes(&a, extra);
    printf("managed %d\n", a.type == cudaMemoryTypeManaged);
    cudaFree(extra);
    return 0;
}
