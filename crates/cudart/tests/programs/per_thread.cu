// Threads with default streams of their own (nvcc --default-stream per-thread).
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>
#include <vector>

__global__ void fill(int *p, int v) { p[threadIdx.x] = v; }

int main() {
    int sums[4] = {};
    cudaError_t errors[4];
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++)
        all.emplace_back([t, &sums, &errors] {
            int *p, h[64];
            cudaMalloc(&p, sizeof h);
            fill<<<1, 64>>>(p, t + 1);
            cudaMemcpyAsync(h, p, sizeof h, cudaMemcpyDeviceToHost);
            errors[t] = cudaStreamSynchronize(0);
            for (int x : h) sums[t] += x;
            cudaMemset(p, 0, sizeof h);
            cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
            for (int x : h) sums[t] += x;
            cudaSetDevice(7 + t); // fails in this thread alone
            cudaFree(p);
        });
    for (auto &t : all) t.join();
    for (int t = 0; t < 4; t++) printf("%d %s\n", sums[t], cudaGetErrorString(errors[t]));
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    return 0;
}
