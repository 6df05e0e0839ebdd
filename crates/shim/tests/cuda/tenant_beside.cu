// A copy of pageable memory is over when its call returns, also while another thread puts
// functions of the host into the same stream.
#include "check.h"
#include <atomic>
#include <cstdio>
#include <numeric>
#include <thread>
#include <unistd.h>
#include <vector>

__global__ void add(unsigned *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += 1;
}

static std::atomic<bool> is_over{false};
static std::atomic<int> calls{0};

static void pass(void *) {
    usleep(200);
    calls++;
}

// Keeps functions in the stream, eight ahead.
static void feed(cudaStream_t stream) {
    for (int put = 0; !is_over; put++) {
        CHECK(cudaLaunchHostFunc(stream, pass, nullptr));
        while (put - calls > 8 && !is_over) std::this_thread::yield();
    }
}

static void beside(const char *name, unsigned flags) {
    const int n = 1 << 18, rounds = 20;
    const size_t bytes = n * sizeof(unsigned);
    cudaStream_t stream;
    unsigned *values;
    CHECK(cudaStreamCreateWithFlags(&stream, flags));
    CHECK(cudaMalloc(&values, bytes));
    is_over = false;
    calls = 0;
    std::thread feeder(feed, stream);
    int large = 0, small = 0, rows = 0, up = 0;
    for (int round = 0; round < rounds; round++) {
        std::vector<unsigned> host(n, round);
        CHECK(cudaMemcpyAsync(values, host.data(), bytes, cudaMemcpyHostToDevice, stream));
        // The program's own again: the device gets none of this.
        host.assign(n, 1000);
        add<<<n / 256, 256, 0, stream>>>(values, n);
        CHECK(cudaMemcpyAsync(host.data(), values, bytes, cudaMemcpyDeviceToHost, stream));
        large += std::accumulate(host.begin(), host.end(), 0ull) == (round + 1ull) * n;
        unsigned one = 0;
        CHECK(cudaMemcpyAsync(&one, values + 7, sizeof one, cudaMemcpyDeviceToHost, stream));
        small += one == round + 1u;
        host.assign(n, 0);
        CHECK(cudaMemcpy2DAsync(host.data(), 512, values, 1024, 512, n / 256, cudaMemcpyDeviceToHost, stream));
        rows += std::accumulate(host.begin(), host.end(), 0ull) == (round + 1ull) * n / 2;
        one = 2000 + round;
        CHECK(cudaMemcpyAsync(values, &one, sizeof one, cudaMemcpyHostToDevice, stream));
        one = 0;
        CHECK(cudaMemcpyAsync(&one, values, sizeof one, cudaMemcpyDeviceToHost, stream));
        up += one == 2000u + round;
    }
    is_over = true;
    feeder.join();
    CHECK(cudaStreamSynchronize(stream));
    std::printf("%s: large %d small %d rows %d up %d of %d\n", name, large, small, rows, up, rounds);
    CHECK(cudaFree(values));
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    beside("blocking", cudaStreamDefault);
    beside("apart", cudaStreamNonBlocking);
}
