// A caching allocator that tells Ringfence about its blocks, and regions of a
// buffer that are declared one by one. The argument picks one bug; without one
// everything ends exactly where it should.
#include "ringfence.h"
#include <cstdio>
#include <cstdlib>

__global__ void set(int *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = i;
}
__global__ void through(int **list, int which, int n) {
    int *p = list[which];
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] += i;
}
__global__ void marked(int *p, int n, size_t bytes) {
    int *part = ringfence_bounds(p + 4, bytes);
    if (threadIdx.x < n) part[threadIdx.x] = 1;
}

struct Pool {
    char *base;
    size_t used = 0;
    Pool(size_t bytes) {
        cudaMalloc(&base, bytes);
        if (ringfence_pool_create(base, bytes)) printf("pool?\n");
    }
    int *take(size_t bytes, size_t alignment) {
        used = (used + alignment - 1) / alignment * alignment;
        int *block = (int *)(base + used);
        used += bytes;
        if (ringfence_pool_alloc(base, block, bytes)) printf("block?\n");
        return block;
    }
};

int main(int count, char **arguments) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    int bug = count > 1 ? atoi(arguments[1]) : 0;
    Pool pool(1 << 20);
    int *a = pool.take(400, 512), *b = pool.take(4096, 512), *small = pool.take(40, 8), *next = pool.take(40, 8);
    int *table[4] = {a, b, small, next}, **list;
    cudaMalloc(&list, sizeof table);
    cudaMemcpy(list, table, sizeof table, cudaMemcpyDefault);

    set<<<1, 256>>>(a, 100 + (bug == 1));
    set<<<1, 256>>>(small, 10 + (bug == 2));
    through<<<1, 32>>>(list, 0, 100 + (bug == 3));
    through<<<1, 32>>>(list, 2, 10);
    set<<<4, 256>>>(b, 1024);
    cudaMemset(b, 0, 4096 + (bug == 4));
    if (bug == 5) set<<<1, 1>>>((int *)(pool.base + 65536), 1);
    // Taken back while a kernel that reads it from memory may still run.
    through<<<1, 32>>>(list, 1, 1024);
    ringfence_pool_free(b);
    int *again = pool.take(100, 512);
    through<<<1, 32>>>(list, 3, 10);
    set<<<1, 32>>>(again, 25);
    cudaDeviceSynchronize();
    if (bug == 6) set<<<1, 1>>>(b, 1);
    if (bug == 7) through<<<1, 32>>>(list, 1, 10);
    if (bug == 8) cudaMemset(b, 0, 4);
    cudaDeviceSynchronize();

    int *buffer;
    cudaMalloc(&buffer, 3000);
    ringfence_region_create(buffer + 100, 400, "weights");
    set<<<1, 256>>>(buffer + 100, 100 + (bug == 9));
    set<<<1, 256>>>(buffer, 100);
    set<<<1, 256>>>(buffer + 200, 100);
    ringfence_region_destroy(buffer + 100);
    set<<<1, 256>>>(buffer + 100, 200);
    cudaDeviceSynchronize();
    cudaFree(buffer);
    if (bug == 10) printf("%d\n", ringfence_pool_free(buffer) + ringfence_region_create(buffer, 4, nullptr));
    ringfence_pool_destroy(pool.base);
    set<<<1, 256>>>(a, 200);
    cudaDeviceSynchronize();
    int first;
    cudaMemcpy(&first, a + 199, 4, cudaMemcpyDeviceToHost);
    printf("%d %s\n", first, cudaGetErrorString(cudaGetLastError()));
    if (bug == 0) marked<<<1, 32>>>(a, 10, 40);
    cudaDeviceSynchronize();
}
