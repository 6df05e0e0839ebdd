// Copies between pageable memory and the device: what they copied is what host memory
// held when they were called, whoever uses it next, in whichever stream.
#include "check.h"
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

__global__ void add(unsigned *values, unsigned more, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * 3 + more;
}

static unsigned long long digest(const std::vector<unsigned> &values) {
    unsigned long long sum = 1469598103934665603ull;
    for (unsigned value : values) sum = (sum ^ value) * 1099511628211ull;
    return sum;
}

// One thread's streams and memory; `apart`: with a stream that waits for no other.
static unsigned long long work(unsigned seed, bool apart, int rounds) {
    const int most = 200000;
    cudaStream_t blocking, other;
    CHECK(cudaStreamCreate(&blocking));
    CHECK(cudaStreamCreateWithFlags(&other, apart ? cudaStreamNonBlocking : cudaStreamDefault));
    unsigned *values;
    CHECK(cudaMalloc(&values, most * sizeof(unsigned)));
    std::vector<unsigned> host(most), back(most);
    unsigned long long all = 0;
    unsigned random = seed;
    auto next = [&](unsigned bound) {
        random = random * 1664525u + 1013904223u;
        return (random >> 8) % bound;
    };
    for (int round = 0; round < rounds; round++) {
        const int sizes[] = {1, 16, 1000, 16384, 16385, 60000, 131072, most};
        const int n = sizes[next(8)], blocks = (n + 255) / 256;
        for (int i = 0; i < n; i++) host[i] = random + i * 7;
        const bool is_async = next(2);
        cudaStream_t first = next(2) ? blocking : other;
        if (is_async) {
            CHECK(cudaMemcpyAsync(values, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice, first));
        } else {
            CHECK(cudaMemcpy(values, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
        }
        // Pageable memory is the program's again.
        std::memset(host.data(), 0xff, n * sizeof(unsigned));
        const int launches = next(6);
        // What is there when the copy has returned any stream may use.
        cudaStream_t second = is_async ? first : next(2) ? other : blocking;
        for (int i = 0; i < launches; i++) add<<<blocks, 256, 0, second>>>(values, round + i, n);
        if (next(3) == 0) {
            unsigned one = 5;
            CHECK(cudaMemcpyAsync(values, &one, sizeof one, cudaMemcpyHostToDevice, second));
            one = 6;
        }
        const int some = next(2) ? n : 1 + next(n);
        if (second == other && apart && next(2)) {
            CHECK(cudaMemcpyAsync(back.data(), values, some * sizeof(unsigned), cudaMemcpyDeviceToHost, second));
            CHECK(cudaStreamSynchronize(second));
        } else {
            if (second == other) CHECK(cudaStreamSynchronize(second));
            CHECK(cudaMemcpy(back.data(), values, some * sizeof(unsigned), cudaMemcpyDeviceToHost));
        }
        all = all * 31 + digest(std::vector<unsigned>(back.begin(), back.begin() + some));
    }
    CHECK(cudaStreamDestroy(blocking));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaFree(values));
    return all;
}

__global__ void long_work(unsigned *value, int rounds) {
    unsigned sum = 1;
    for (int i = 0; i < rounds; i++) sum = sum * 3 + i;
    *value = sum;
}

// A copy that returns when it has copied waits first for what is in its stream.
static void wait_by_copying() {
    unsigned *values, *sum;
    std::vector<unsigned> host(50000, 7);
    cudaEvent_t over;
    CHECK(cudaMalloc(&values, host.size() * sizeof(unsigned)));
    CHECK(cudaMalloc(&sum, sizeof *sum));
    CHECK(cudaEventCreate(&over));
    long_work<<<1, 1>>>(sum, 300000);
    CHECK(cudaEventRecord(over));
    CHECK(cudaMemcpy(values, host.data(), host.size() * sizeof(unsigned), cudaMemcpyHostToDevice));
    std::printf("waited: %s\n", cudaGetErrorName(cudaEventQuery(over)));
    unsigned first, last;
    CHECK(cudaMemcpy(&last, sum, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&first, values, sizeof first, cudaMemcpyDeviceToHost));
    std::printf("%u %u\n", first, last);
    CHECK(cudaEventDestroy(over));
    CHECK(cudaFree(values));
    CHECK(cudaFree(sum));
}

int main() {
    wait_by_copying();
    std::printf("in order %llx\n", work(1, false, 150));
    std::printf("apart %llx\n", work(2, true, 150));
    unsigned long long digests[3];
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back([&, i] { digests[i] = work(10 + i, i == 1, 60); });
    for (auto &thread : threads) thread.join();
    for (auto digest : digests) std::printf("thread %llx\n", digest);
}
