// A program that calls all that tenants have: its session is what messages are
// mutated from.
#include "attack.cuh"
#include <cstdio>
#include "tour.h"

__device__ uint32_t tour_table[64];
__constant__ uint32_t tour_factors[4] = {3, 5, 7, 11};

__global__ void tour_step(uint32_t *data, int n, uint32_t number) {
    extern __shared__ uint32_t parts[];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    parts[threadIdx.x] = at < n ? data[at] : 0;
    __syncthreads();
    if (at < n) data[at] = parts[threadIdx.x] * tour_factors[at % 4] + number + tour_table[at % 64];
}

__global__ void tour_print(int number) { printf("tour %d\n", number); }

static const char SMALL[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                            ".visible .global .align 4 .u32 word;\n"
                            ".visible .entry nothing(.param .u64 a) { ret; }\n";

void tour() {
    const size_t n = 4096, large = 2 << 20, bytes = 4 * n;
    std::vector<uint32_t> host(large / 4, 7);
    uint32_t *data, *other, *rows;
    size_t pitch, free, total;
    cudaStream_t stream;
    cudaEvent_t start, end;
    // (Before a kernel that prints is launched.)
    size_t printed;
    CHECK(cudaDeviceGetLimit(&printed, cudaLimitPrintfFifoSize));
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, printed));
    CHECK(cudaMalloc(&data, large));
    CHECK(cudaMalloc(&other, bytes));
    CHECK(cudaMallocPitch(&rows, &pitch, 200, 16));
    CHECK(cudaMemGetInfo(&free, &total));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    // From and to pinned memory, through the staging area, and by messages.
    uint32_t *pinned;
    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaMemcpyAsync(other, pinned, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(pinned, other, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaMemcpy(data, host.data(), large, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(host.data(), data, large, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(other, host.data(), 64, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(tour_table, host.data(), 256));
    CHECK(cudaMemcpy2D(rows, pitch, host.data(), 200, 200, 16, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(other, 1, bytes));
    CHECK(cudaMemset2D(rows, pitch, 2, 100, 16));
    CHECK(cudaFuncSetAttribute(tour_step, cudaFuncAttributeMaxDynamicSharedMemorySize, 2048));
    int blocks;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, tour_step, 128, 512));
    for (int round = 0; round < 4; round++) {
        CHECK(cudaEventRecord(start, stream));
        tour_step<<<n / 128, 128, 512, stream>>>(data, n, round);
        CHECK(cudaMemcpyAsync(other, data, bytes, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamWaitEvent(nullptr, end, 0));
        tour_step<<<n / 128, 128, 512>>>(other, n, round);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventSynchronize(end));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    }
    CHECK(cudaMemcpy(host.data(), other, 64, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyFromSymbol(host.data(), tour_table, 256));
    tour_print<<<1, 2>>>(1);
    CHECK(cudaDeviceSynchronize());
    uint32_t *pooled;
    CHECK(cudaMallocAsync(&pooled, bytes, stream));
    CHECK(cudaFreeAsync(pooled, stream));
    CUmodule module;
    CHECK_DRIVER(DRIVER(cuModuleLoadData)(&module, SMALL));
    CHECK_DRIVER(DRIVER(cuModuleUnload)(module));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(start));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(rows));
    CHECK(cudaDeviceReset());
}
