// Streams, events, host functions, callbacks.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *p, int v, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = v;
}
__global__ void copy(const int *a, int *b, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) b[i] = a[i] + 1;
}

static void host(void *p) { ++*(int *)p; }
static void called(cudaStream_t, cudaError_t e, void *p) { *(int *)p = e == cudaSuccess ? 100 : -1; }

int main() {
    const int n = 4096;
    int *a, *b, *h, calls = 0, status = 0;
    cudaStream_t one, two, urgent;
    cudaEvent_t start, middle, end;
    cudaMalloc(&a, n * 4);
    cudaMalloc(&b, n * 4);
    cudaMallocHost(&h, n * 4);
    cudaStreamCreate(&one);
    cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    int least, greatest, priority = 12345;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest);
    cudaStreamGetPriority(urgent, &priority);
    unsigned flags = 99;
    cudaStreamGetFlags(two, &flags);
    printf("priority %d flags %u\n", priority == greatest, flags);
    cudaEventCreate(&start);
    cudaEventCreateWithFlags(&middle, cudaEventDisableTiming);
    cudaEventCreate(&end);
    cudaEventRecord(start, one);
    fill<<<4, 128, 0, one>>>(a, 41, n);
    cudaEventRecord(middle, one);
    cudaStreamWaitEvent(two, middle, 0);
    copy<<<4, 128, 0, two>>>(a, b, n);
    cudaMemcpyAsync(h, b, n * 4, cudaMemcpyDeviceToHost, two);
    cudaLaunchHostFunc(two, host, &calls);
    cudaStreamAddCallback(two, called, &status, 0);
    cudaEventRecord(end, two);
    printf("wait: %s\n", cudaGetErrorString(cudaEventSynchronize(end)));
    printf("first %d last %d calls %d status %d\n", h[0], h[n - 1], calls, status);
    printf("query: %s %s\n", cudaGetErrorString(cudaStreamQuery(two)), cudaGetErrorString(cudaEventQuery(end)));
    cudaStreamSynchronize(one);
    float ms = -1;
    printf("elapsed: %s", cudaGetErrorString(cudaEventElapsedTime(&ms, start, end)));
    printf(" %d\n", ms >= 0 && ms < 60000);
    printf("no timing: %s\n", cudaGetErrorString(cudaEventElapsedTime(&ms, start, middle)));
    cudaGetLastError();
    cudaMemsetAsync(a, 0x11, n * 4, one);
    cudaMemcpyAsync(h, a, n * 4, cudaMemcpyDeviceToHost, one);
    cudaStreamSynchronize(one);
    printf("memset %x\n", h[n / 2]);
    printf("destroy: %s\n", cudaGetErrorString(cudaStreamDestroy(one)));
    cudaStreamDestroy(two);
    cudaStreamDestroy(urgent);
    cudaEventDestroy(start);
    cudaEventDestroy(middle);
    cudaEventDestroy(end);
    cudaFreeHost(h);
    printf("end: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 0;
}
