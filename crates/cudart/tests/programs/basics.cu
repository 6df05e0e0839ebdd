// Allocation, copies, launches, printf, and errors with CUDA's texts.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void say(int x) {
    if (threadIdx.x < 2) printf("thread %d says %d\n", threadIdx.x, x + (int)threadIdx.x);
}

__global__ void nothing() {}

static void show(const char *what, cudaError_t e) { printf("%s: %s (%s)\n", what, cudaGetErrorName(e), cudaGetErrorString(e)); }

int main() {
    const int n = 1000;
    float *h = (float *)malloc(n * 4), *a, *b, *c;
    for (int i = 0; i < n; i++) h[i] = i;
    show("malloc", cudaMalloc(&a, n * 4));
    cudaMalloc(&b, n * 4);
    cudaMalloc(&c, n * 4);
    cudaMemcpy(a, h, n * 4, cudaMemcpyHostToDevice);
    show("to device", cudaMemcpy(b, a, n * 4, cudaMemcpyDeviceToDevice));
    add<<<(n + 127) / 128, 128>>>(a, b, c, n);
    show("launch", cudaGetLastError());
    show("copy back", cudaMemcpy(h, c, n * 4, cudaMemcpyDefault));
    int bad = 0;
    for (int i = 0; i < n; i++) bad += h[i] != 2.0f * i;
    printf("wrong: %d\n", bad);
    say<<<1, 32>>>(40);
    show("synchronize", cudaDeviceSynchronize());
    fflush(stdout);

    nothing<<<0, 1>>>();
    show("peek", cudaPeekAtLastError());
    show("no blocks", cudaGetLastError());
    show("cleared", cudaGetLastError());
    nothing<<<1, 4096>>>();
    show("too many threads", cudaGetLastError());
    nothing<<<dim3(1, 70000), 1>>>();
    show("too many blocks", cudaGetLastError());
    show("direction", cudaMemcpy(a, h, 4, (cudaMemcpyKind)7));
    show("too much", cudaMalloc(&b, (size_t)1 << 60));
    show("nothing to free", cudaFree(nullptr));
    void *none = &none;
    show("nothing to allocate", cudaMalloc(&none, 0));
    printf("null: %d\n", none == nullptr);
    show("device", cudaSetDevice(99));
    show("not a kernel", cudaLaunchKernel((void *)show, dim3(1), dim3(1), nullptr, 0, 0));
    show("free", cudaFree(a));
    show("reset", cudaDeviceReset());
    return 0;
}
