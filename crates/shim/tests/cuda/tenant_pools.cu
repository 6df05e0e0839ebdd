// Memory in the order of streams: allocated, used and freed without a wait, many
// times what a tenant may have; pools and their attributes. It prints what it
// computes.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                        \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

__global__ void fill(unsigned *data, int n, unsigned value) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) data[at] = value + at;
}

__global__ void add(const unsigned *data, int n, unsigned *sum) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) atomicAdd(sum, data[at]);
}

int main() {
    cudaStream_t streams[2];
    for (auto &stream : streams) CHECK(cudaStreamCreate(&stream));
    unsigned *sum;
    CHECK(cudaMallocAsync(&sum, 4, streams[0]));
    CHECK(cudaMemsetAsync(sum, 0, 4, streams[0]));
    cudaEvent_t ready;
    CHECK(cudaEventCreate(&ready));
    CHECK(cudaEventRecord(ready, streams[0]));
    CHECK(cudaStreamWaitEvent(streams[1], ready, 0));
    // 60 times 8 MiB in two streams: more than the 64 MiB of a tenant.
    const int n = 2 << 20;
    for (int round = 0; round < 60; round++) {
        cudaStream_t stream = streams[round % 2];
        unsigned *data;
        CHECK(cudaMallocAsync(&data, n * 4, stream));
        fill<<<n / 256, 256, 0, stream>>>(data, n, round);
        add<<<4, 256, 0, stream>>>(data, 1024, sum);
        CHECK(cudaFreeAsync(data, stream));
    }
    CHECK(cudaEventRecord(ready, streams[1]));
    CHECK(cudaStreamWaitEvent(streams[0], ready, 0));
    unsigned result = 0;
    CHECK(cudaMemcpyAsync(&result, sum, 4, cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaFreeAsync(sum, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    printf("sum %u\n", result);
    printf("twice: %d\n", cudaFreeAsync(sum, streams[0]));
    size_t available, total;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemGetInfo(&available, &total));

    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool, current;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    uint64_t threshold = 12345, found = 0;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &found));
    int reuse = -1;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &reuse));
    unsigned *from_pool;
    CHECK(cudaMallocFromPoolAsync(&from_pool, 1000, pool, streams[0]));
    fill<<<1, 250, 0, streams[0]>>>(from_pool, 250, 7);
    unsigned last = 0;
    CHECK(cudaMemcpyAsync(&last, from_pool + 249, 4, cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    uint64_t used = 0, reserved = 0, most = 0;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    printf("used %llu of %llu", (unsigned long long)used, (unsigned long long)reserved);
    CHECK(cudaFree(from_pool));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &most));
    printf(", then %llu, at most %llu\n", (unsigned long long)used, (unsigned long long)most);
    CHECK(cudaDeviceSetMemPool(0, pool));
    CHECK(cudaDeviceGetMemPool(&current, 0));
    printf("threshold %llu reuse %d last %u is current %d\n", (unsigned long long)found, reuse, last, current == pool);
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemPoolDestroy(pool));
    printf("gone: %d\n", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &found) != cudaSuccess);
    return 0;
}
