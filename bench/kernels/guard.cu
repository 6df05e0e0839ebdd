// What the guard of --protect watch does to programs that synchronize often,
// and to programs with many buffers:
//   times    a launch and a wait, by how the program waits and how many launches
//            lie before it; then, with 1, 16, 256 and 4096 buffers of 4 KiB, the
//            time of a kernel and of a launch
//   attack COUNT RUNS MICROSECONDS
//            with COUNT such buffers, kernels that write past the end of one and
//            then stay for so long
// `times` prints a JSON line for each, medians (--quick: of small problems);
// `attack` prints when each kernel began, wrote and ended, in nanoseconds of the
// device's clock.
#include "clock.h"
#include "harness.h"
#include "watch.h"

constexpr size_t kBytes = 4 << 10;
constexpr int kCount = kBytes / sizeof(int);

extern "C" __global__ void few(const float *a, const float *b, float *c, int n) {
    int i = threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void triad(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + 3.0f * b[i];
}

extern "C" __global__ void overrun(int *out, int count, Times *times, unsigned long long nanoseconds) {
    times->began = now();
    for (int i = 0; i < count; i++) out[i] = i;
    __threadfence();
    times->wrote = now();
    stay(times, nanoseconds);
}

// Buffers that only lie there.
struct Buffers {
    std::vector<int *> all;

    void grow(size_t count) {
        while (all.size() < count) all.push_back(make(kCount));
    }
    ~Buffers() {
        for (int *each : all) CHECK(cudaFree(each));
    }
};

enum class Wait { device, stream, event };

static const char *name(Wait wait) {
    switch (wait) {
    case Wait::device: return "cudaDeviceSynchronize";
    case Wait::stream: return "cudaStreamSynchronize";
    default: return "cudaEventSynchronize";
    }
}

static void waits(Wait wait, int launches, bool quick) {
    const int n = 32, batch = launches < 50 ? 50 / launches : 1;
    float *a = nullptr;
    cudaEvent_t event;
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMemset(a, 0, n * sizeof(float)));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    double time = median(
        quick ? 1 : 60, batch, quick ? 0 : 20e3,
        [&] {
            for (int i = 0; i < batch; i++) {
                for (int k = 0; k < launches; k++) few<<<1, n>>>(a, a, a, n);
                switch (wait) {
                case Wait::device: CHECK(cudaDeviceSynchronize()); break;
                case Wait::stream: CHECK(cudaStreamSynchronize(0)); break;
                case Wait::event:
                    CHECK(cudaEventRecord(event));
                    CHECK(cudaEventSynchronize(event));
                }
            }
        },
        [] { CHECK(cudaGetLastError()); });
    std::printf("{\"wait\":\"%s\",\"launches\":%d,\"turn_us\":%.4f}\n", name(wait), launches, time);
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(a));
}

static float milliseconds(const float *a, const float *b, float *c, int n, cudaEvent_t start, cudaEvent_t stop) {
    CHECK(cudaEventRecord(start));
    triad<<<(n + 255) / 256, 256>>>(a, b, c, n);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaGetLastError());
    CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    return ms;
}

static void buffers(bool quick) {
    const int n = quick ? 1 << 12 : 1 << 26;
    float *large[3];
    for (float *&each : large) {
        CHECK(cudaMalloc(&each, n * sizeof(float)));
        CHECK(cudaMemset(each, 0, n * sizeof(float)));
    }
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    Buffers small;
    for (size_t count : {1, 16, 256, 4096}) {
        small.grow(count);
        float *one = (float *)small.all[0];
        std::vector<float> times;
        const int before = quick ? 1 : 3, counted = quick ? 1 : 12;
        for (int i = 0; i < before + counted; i++) {
            float ms = milliseconds(large[0], large[1], large[2], n, start, stop);
            if (i >= before) times.push_back(ms);
        }
        std::sort(times.begin(), times.end());
        CHECK(cudaDeviceSynchronize());
        double launch = median(
            quick ? 1 : 60, 200, quick ? 0 : 20e3,
            [&] {
                for (int i = 0; i < 200; i++) few<<<1, 32>>>(one, one, one, 32);
            },
            [] {
                CHECK(cudaGetLastError());
                CHECK(cudaDeviceSynchronize());
            });
        std::printf("{\"buffers\":%zu,\"kernel_ms\":%.6f,\"launch_us\":%.4f}\n", count, times[times.size() / 2],
                    launch);
        std::fflush(stdout);
    }
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    for (float *each : large) CHECK(cudaFree(each));
}

static void attack(size_t count, int runs, unsigned long long nanoseconds) {
    Buffers small;
    small.grow(count);
    Times *times = host_times();
    for (int run = 0; run < runs; run++) {
        // Early and late ones in the guard's round.
        int *&victim = small.all[run * count / runs];
        *times = Times{};
        overrun<<<1, 1>>>(victim, kCount + 1, times, nanoseconds);
        FINISH();
        std::printf("overrun %llu %llu %llu\n", times->began, times->wrote, times->ended);
        // What was written beside it goes with it.
        CHECK(cudaFree(victim));
        victim = make(kCount);
    }
    CHECK(cudaFreeHost(times));
}

int main(int argc, char **argv) {
    std::string what = argc > 1 ? argv[1] : "";
    if (what == "times") {
        bool quick = argc > 2 && !std::strcmp(argv[2], "--quick");
        waits(Wait::device, 1, quick);
        waits(Wait::device, 10, quick);
        waits(Wait::device, 100, quick);
        waits(Wait::stream, 1, quick);
        waits(Wait::event, 1, quick);
        buffers(quick);
        return 0;
    }
    if (what == "attack" && argc == 5) {
        attack(std::strtoull(argv[2], nullptr, 10), std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10) * 1000);
        return 0;
    }
    std::fprintf(stderr, "usage: %s times [--quick] | attack COUNT RUNS MICROSECONDS\n", argv[0]);
    return 2;
}
