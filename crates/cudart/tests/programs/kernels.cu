// Kernels as objects, cooperative and extended launches.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
namespace cg = cooperative_groups;

__global__ void reverse(int *p, int n) {
    extern __shared__ int s[];
    s[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = s[n - 1 - threadIdx.x];
}

__global__ void __launch_bounds__(128) two_steps(int *p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    p[i] = i;
    cg::this_grid().sync();
    int other = p[gridDim.x * blockDim.x - 1 - i];
    cg::this_grid().sync();
    p[i] += other;
}

static void show(const char *what, cudaError_t e) { printf("%s: %s\n", what, cudaGetErrorString(e)); }

int main() {
    cudaFuncAttributes a;
    show("attributes", cudaFuncGetAttributes(&a, two_steps));
    printf("threads %d ptx %d\n", a.maxThreadsPerBlock, a.ptxVersion > 0);
    const char *name = nullptr;
    show("name", cudaFuncGetName(&name, (const void *)reverse));
    printf("%s\n", name);
    show("dynamic shared", cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
    show("cache", cudaFuncSetCacheConfig(reverse, cudaFuncCachePreferShared));
    int blocks = 0;
    show("occupancy", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 64, 256));
    printf("some %d\n", blocks > 0);
    int grid = 0, block = 0;
    show("block size", cudaOccupancyMaxPotentialBlockSize(&grid, &block, two_steps, 0, 0));
    printf("some %d\n", grid > 0 && block > 0 && block <= 128);

    int *p, h[256], n = 64;
    cudaMalloc(&p, sizeof h);
    for (int i = 0; i < 256; i++) h[i] = i;
    cudaMemcpy(p, h, sizeof h, cudaMemcpyHostToDevice);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(64);
    config.dynamicSmemBytes = 256;
    show("extended", cudaLaunchKernelEx(&config, reverse, p, n));
    cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", h[0], h[63], h[64]);
    void *args[] = {&p};
    show("cooperative", cudaLaunchCooperativeKernel(two_steps, dim3(2), dim3(128), args, 0, 0));
    cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", h[0], h[100], h[255]);
    cudaKernel_t kernel;
    show("kernel", cudaGetKernel(&kernel, reverse));
    void *both[] = {&p, &n};
    show("by handle", cudaLaunchKernel((const void *)kernel, dim3(1), dim3(64), both, 256, 0));
    show("synchronize", cudaDeviceSynchronize());
    cudaFunction_t function;
    show("function", cudaGetFuncBySymbol(&function, (const void *)reverse));
    return 0;
}
