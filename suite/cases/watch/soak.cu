// bug: after thousands of calls by eight threads, a kernel that writes one element past its buffer
// run: protect=watch launch-backtraces=1000000
// expect: rule=canary-overwritten kernel=fill at=0 size=400
//
// The guard must never be noticed: each thread does its own arithmetic with
// buffers that live for one turn, in streams of all kinds, frees in between
// what the others run, and waits by stream, by event, by copy and for the whole
// device. What each computes is known beforehand.
#include "case.h"
#include <atomic>
#include <cstdint>
#include <thread>

constexpr int kThreads = 8;
// More than ten thousand calls in all; a second argument makes it more.
static int turns = 1600;
constexpr int kMost = 400;

extern "C" __global__ void fill(uint32_t *out, int count, uint32_t seed) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = seed * 2654435761u + i;
}

extern "C" __global__ void fold(const uint32_t *in, int count, uint32_t *out) {
    uint32_t sum = 0;
    for (int i = threadIdx.x; i < count; i += 32) sum = sum * 31 + in[i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) *out = sum;
}

static uint32_t expected(int count, uint32_t seed) {
    uint32_t sums[32] = {};
    for (int lane = 0; lane < 32; lane++)
        for (int i = lane; i < count; i += 32) sums[lane] = sums[lane] * 31 + (seed * 2654435761u + i);
    uint32_t sum = 0;
    for (uint32_t part : sums) sum += part;
    return sum;
}

static std::atomic<int> wrong{0};

static void turn(int thread, int number, cudaStream_t own, cudaEvent_t event, uint32_t *answer) {
    const uint32_t seed = thread * turns + number;
    const int count = 1 + seed * 7919u % kMost;
    uint32_t *data, *sum;
    const bool in_order = number % 3 == 0;
    // Without a stream: the default one, which waits for blocking streams.
    cudaStream_t stream = number % 5 == 4 ? nullptr : own;
    if (in_order) {
        CHECK(cudaMallocAsync(&data, count * sizeof *data, stream));
        CHECK(cudaMallocAsync(&sum, sizeof *sum, stream));
    } else {
        CHECK(cudaMalloc(&data, count * sizeof *data));
        CHECK(cudaMalloc(&sum, sizeof *sum));
    }
    fill<<<2, 32, 0, stream>>>(data, count, seed);
    fold<<<1, 32, 0, stream>>>(data, count, sum);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(answer, sum, sizeof *sum, cudaMemcpyDeviceToHost, stream));
    if (in_order) {
        CHECK(cudaFreeAsync(data, stream));
        CHECK(cudaFreeAsync(sum, stream));
    }
    switch (number % 4) {
    case 0: CHECK(cudaStreamSynchronize(stream)); break;
    case 1:
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaEventSynchronize(event));
        break;
    case 2: CHECK(cudaDeviceSynchronize()); break;
    default:
        CHECK(cudaStreamSynchronize(stream));
        // Frees pinned memory beside what the others run.
        uint32_t *pinned;
        CHECK(cudaMallocHost(&pinned, 64));
        CHECK(cudaFreeHost(pinned));
    }
    if (!in_order) {
        CHECK(cudaFree(data));
        CHECK(cudaFree(sum));
    }
    if (*answer != expected(count, seed)) wrong++;
}

static void work(int thread) {
    cudaStream_t stream;
    cudaEvent_t event;
    uint32_t *answer;
    CHECK(cudaStreamCreateWithFlags(&stream, thread % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMallocHost(&answer, sizeof *answer));
    for (int number = 0; number < turns / kThreads; number++) turn(thread, number, stream, event, answer);
    CHECK(cudaFreeHost(answer));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    if (argc > 2) turns = atoi(argv[2]);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++) threads.emplace_back(work, thread);
    for (std::thread &thread : threads) thread.join();
    std::printf("%d turns, %d wrong\n", turns, wrong.load());
    uint32_t *last = zeroed<uint32_t>(100);
    fill<<<1, 32>>>(last, 100 + bad, 7);  // BUG
    FINISH();
    CHECK(cudaFree(last));
}
