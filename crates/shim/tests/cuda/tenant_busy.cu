// A thread waits, copies and frees while another one keeps the streams busy: each of its
// calls waits for what was there before, and for no more.
#include "check.h"
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

__device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

__global__ void take(unsigned long long nanoseconds) {
    for (auto start = now(); now() - start < nanoseconds;) {
    }
}

__global__ void add(unsigned *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += 1;
}

static std::atomic<bool> is_over{false};

// Keeps a stream busy, four kernels of three milliseconds ahead; whether it was stopped.
static void feed(cudaStream_t stream, bool *was_stopped) {
    cudaEvent_t ends[4];
    for (auto &end : ends) CHECK(cudaEventCreate(&end));
    for (int i = 0; i < 600 && !is_over; i++) {
        take<<<1, 1, 0, stream>>>(3000000);
        CHECK(cudaEventRecord(ends[i % 4], stream));
        CHECK(cudaEventSynchronize(ends[(i + 1) % 4]));
    }
    *was_stopped = is_over;
}

static void calls(cudaStream_t stream, cudaStream_t own) {
    const int n = 1 << 20;
    const size_t bytes = n * sizeof(unsigned);
    unsigned *values;
    CHECK(cudaMalloc(&values, bytes));
    std::vector<unsigned> host(n, 5);
    auto sum = [&] {
        unsigned long long all = 0;
        for (unsigned value : host) all += value;
        return all;
    };
    CHECK(cudaMemcpy(values, host.data(), bytes, cudaMemcpyHostToDevice));
    add<<<n / 256, 256, 0, stream>>>(values, n);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpyAsync(host.data(), values, bytes, cudaMemcpyDeviceToHost, stream));
    std::printf("large %llu\n", sum());
    host.assign(n, 9);
    CHECK(cudaMemcpy2D(values, 1024, host.data(), 800, 700, 900, cudaMemcpyHostToDevice));
    add<<<n / 256, 256, 0, stream>>>(values, n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy2D(host.data(), 900, values, 1024, 800, 800, cudaMemcpyDeviceToHost));
    std::printf("rows %llu\n", sum());
    host[0] = 77;
    CHECK(cudaMemcpy(values, host.data(), 64, cudaMemcpyHostToDevice));
    host[0] = 0;
    CHECK(cudaMemcpy(host.data(), values, 64, cudaMemcpyDeviceToHost));
    std::printf("small %u\n", host[0]);
    for (int i = 0; i < 40; i++) {
        host[1] = i;
        CHECK(cudaMemcpyAsync(values + i, &host[1], sizeof(unsigned), cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(values + 4096, host.data(), bytes / 16, cudaMemcpyHostToDevice, own));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamSynchronize(own));
    CHECK(cudaMemcpy(host.data(), values, 40 * sizeof(unsigned), cudaMemcpyDeviceToHost));
    std::printf("many %u %u\n", host[1], host[39]);
    CHECK(cudaFree(values));
    size_t free_before, free_after, total;
    CHECK(cudaMemGetInfo(&free_before, &total));
    CHECK(cudaMalloc(&values, bytes));
    CHECK(cudaFree(values));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemGetInfo(&free_after, &total));
    std::printf("freed %d\n", free_before == free_after);
}

static void beside(const char *name, unsigned flags) {
    cudaStream_t stream, own;
    CHECK(cudaStreamCreateWithFlags(&stream, flags));
    CHECK(cudaStreamCreateWithFlags(&own, flags));
    bool was_stopped = false;
    is_over = false;
    std::thread feeder(feed, stream, &was_stopped);
    calls(stream, own);
    is_over = true;
    feeder.join();
    std::printf("%s: %s\n", name, was_stopped ? "in time" : "the stream was idle before");
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(own));
}

int main() {
    beside("blocking", cudaStreamDefault);
    beside("apart", cudaStreamNonBlocking);
}
