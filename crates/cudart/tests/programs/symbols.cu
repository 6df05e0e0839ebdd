// Variables by name: constant, device, arrays, ranges, addresses.
#include <cstdio>
#include <cuda_runtime.h>

__constant__ int factors[4] = {1, 2, 3, 4};
__device__ int counter = 5;
__device__ double table[8];
static __device__ int hidden = 77;

__global__ void use(int *out) {
    out[threadIdx.x] = factors[threadIdx.x] * 10 + hidden;
    atomicAdd(&counter, 1);
    table[threadIdx.x] = threadIdx.x * 0.5;
}

static void show(const char *what, cudaError_t e) { printf("%s: %s\n", what, cudaGetErrorString(e)); }

int main() {
    int seven = 7, n = 0, out[4], *d;
    cudaMalloc(&d, sizeof out);
    show("offset", cudaMemcpyToSymbol(factors, &seven, 4, 8));
    show("past the end", cudaMemcpyToSymbol(factors, &seven, 4, 16));
    show("direction", cudaMemcpyToSymbol(factors, &seven, 4, 0, cudaMemcpyDeviceToHost));
    use<<<1, 4>>>(d);
    cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", out[0], out[1], out[2], out[3]);
    show("from", cudaMemcpyFromSymbol(&n, counter, sizeof n));
    printf("counter %d\n", n);
    void *p = nullptr;
    size_t size = 0;
    show("address", cudaGetSymbolAddress(&p, table));
    show("size", cudaGetSymbolSize(&size, table));
    double t[4];
    cudaMemcpy(t, p, sizeof t, cudaMemcpyDeviceToHost);
    printf("size %zu, %g %g %g %g\n", size, t[0], t[1], t[2], t[3]);
    cudaStream_t s;
    cudaStreamCreate(&s);
    int async = 0;
    show("async", cudaMemcpyFromSymbolAsync(&async, counter, 4, 0, cudaMemcpyDeviceToHost, s));
    cudaStreamSynchronize(s);
    printf("async %d\n", async);
    show("no symbol", cudaGetSymbolAddress(&p, &n));
    return 0;
}
