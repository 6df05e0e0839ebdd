// A thread captures in the mode that leaves other threads alone, while others allocate, free,
// and destroy streams and pools: no capture ends early, and no call fails.
// Argument: how many captures.
#include "check.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

__global__ void add(unsigned *values, unsigned n, unsigned more) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += more;
}

static const unsigned N = 1000;
static std::atomic<bool> over{false};
static std::atomic<unsigned> wrong{0};

static void expect(unsigned *device, unsigned value, cudaStream_t stream) {
    static thread_local unsigned *host = nullptr;
    if (!host) CHECK(cudaMallocHost(&host, N * sizeof *host));
    CHECK(cudaMemcpyAsync(host, device, N * sizeof *host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (unsigned i = 0; i < N; i++) wrong += host[i] != value;
}

static void allocates(bool is_pooled) {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    for (unsigned round = 0; !over; round++) {
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        unsigned *values;
        if (is_pooled) CHECK(cudaMallocAsync(&values, N * sizeof *values, stream));
        else CHECK(cudaMalloc(&values, N * sizeof *values));
        CHECK(cudaMemsetAsync(values, 0, N * sizeof *values, stream));
        add<<<(N + 127) / 128, 128, 0, stream>>>(values, N, round);
        CHECK(cudaGetLastError());
        if (round % 2) expect(values, round, stream);
        if (is_pooled) CHECK(cudaFreeAsync(values, stream));
        else CHECK(cudaFree(values));
        CHECK(cudaStreamDestroy(stream));
    }
}

int main(int count, char **arguments) {
    unsigned captures = count > 1 ? std::atoi(arguments[1]) : 200;
    unsigned *values;
    CHECK(cudaMalloc(&values, N * sizeof *values));
    CHECK(cudaMemset(values, 0, N * sizeof *values));
    CHECK(cudaDeviceSynchronize());
    std::thread plain(allocates, false), pooled(allocates, true);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unsigned sum = 0;
    for (unsigned i = 1; i <= captures; i++) {
        cudaGraph_t graph;
        cudaGraphExec_t replay;
        for (int begun = 0; begun < 20; begun++) {
            CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
            CHECK(cudaStreamEndCapture(stream, &graph));
            CHECK(cudaGraphDestroy(graph));
        }
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        add<<<(N + 127) / 128, 128, 0, stream>>>(values, N, i);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&replay, graph, 0));
        CHECK(cudaGraphLaunch(replay, stream));
        sum += i;
        expect(values, sum, stream);
        CHECK(cudaGraphExecDestroy(replay));
        CHECK(cudaGraphDestroy(graph));
    }
    over = true;
    plain.join();
    pooled.join();
    std::printf("wrong: %u\n", wrong.load());
    return 0;
}
