// Stream-ordered allocation.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void mark(char *p, size_t n) { p[threadIdx.x * (n / 32)] = threadIdx.x; }

static void show(const char *what, cudaError_t e) { printf("%s: %s\n", what, cudaGetErrorString(e)); }

int main() {
    int supported = 0;
    cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0);
    printf("supported %d\n", supported);
    cudaStream_t s;
    cudaStreamCreate(&s);
    char *p, *q, host[1 << 10];
    show("allocate", cudaMallocAsync(&p, 1 << 10, s));
    show("fill", cudaMemsetAsync(p, 9, 1 << 10, s));
    mark<<<1, 32, 0, s>>>(p, 1 << 10);
    cudaMemcpyAsync(host, p, sizeof host, cudaMemcpyDeviceToHost, s);
    show("free", cudaFreeAsync(p, s));
    show("synchronize", cudaStreamSynchronize(s));
    printf("%d %d %d\n", host[0], host[1], host[32 * 31]);

    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool, current;
    show("create", cudaMemPoolCreate(&pool, &props));
    unsigned long long keep = ~0ull, got = 0;
    show("threshold", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    show("ask", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
    printf("kept %d\n", got == keep);
    show("from pool", cudaMallocFromPoolAsync(&q, 4096, pool, s));
    cudaStreamSynchronize(s);
    show("free by cudaFree", cudaFree(q));
    show("default", cudaDeviceGetDefaultMemPool(&current, 0));
    show("choose", cudaDeviceSetMemPool(0, pool));
    cudaDeviceGetMemPool(&current, 0);
    printf("chosen %d\n", current == pool);
    show("destroy", cudaMemPoolDestroy(pool));
    return 0;
}
