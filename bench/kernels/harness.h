// Times kernels and digests their results.
//
// A kernel is a Bench: it prepares its buffers, then its launch is repeated;
// what must be reset between repetitions is reset outside the timed part.
// One JSON line a kernel goes to standard output:
//   {"kernel":"triad","size":67108864,"ms":0.41,"repetitions":12,"digest":"..."}
// With --small there are no times, so that the output is the same on every run;
// with --quick there are, of the same small problems, once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t status_ = (call);                                          \
        if (status_ != cudaSuccess) {                                          \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                         cudaGetErrorString(status_));                         \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

// (The runtime has them; their header is in no package that is needed otherwise.)
extern "C" cudaError_t cudaProfilerStart();
extern "C" cudaError_t cudaProfilerStop();

// What a program may use in place of the runtime: where buffers come from, and
// what is launched as a kernel of this name.
struct Replaced {
    std::function<void *(size_t bytes)> allocate;
    std::function<void(void *buffer)> free;
    std::function<void(const char *kernel, dim3 grid, dim3 block, void **arguments)> launch;
};
inline Replaced replaced;

template <typename T>
struct Same {
    using type = T;
};

// START(kernel, grid, block, arguments...): kernel<<<grid, block>>>(arguments...),
// or what replaces it.
template <typename... P>
void start(void (*kernel)(P...), const char *name, dim3 grid, dim3 block,
           typename Same<P>::type... arguments) {
    if (!replaced.launch) {
        kernel<<<grid, block>>>(arguments...);
        return;
    }
    void *all[] = {const_cast<void *>(static_cast<const void *>(&arguments))...};
    replaced.launch(name, grid, block, all);
}
#define START(kernel, grid, block, ...) start(kernel, #kernel, grid, block, __VA_ARGS__)

struct Bench {
    std::function<void()> reset;   // before each repetition, not timed
    std::function<void()> launch;  // timed
    const void *result = nullptr;  // device memory to digest
    size_t result_bytes = 0;
    std::vector<void *> buffers;   // freed at the end

    template <typename T>
    T *allocate(size_t count) {
        T *device = nullptr;
        if (replaced.allocate)
            device = static_cast<T *>(replaced.allocate(count * sizeof(T)));
        else
            CHECK(cudaMalloc(&device, count * sizeof(T)));
        buffers.push_back(device);
        return device;
    }

    template <typename T>
    T *upload(const std::vector<T> &host) {
        T *device = allocate<T>(host.size());
        CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
        return device;
    }

    template <typename T>
    void keep(const T *device, size_t count) {
        result = device;
        result_bytes = count * sizeof(T);
    }

    ~Bench() {
        for (void *buffer : buffers) {
            if (replaced.free)
                replaced.free(buffer);
            else
                CHECK(cudaFree(buffer));
        }
    }
};

struct Entry {
    const char *name;
    long long full;   // size of the measurements
    long long small;  // size for the CPU device
    void (*prepare)(Bench &, long long size);
};

struct Options {
    bool small = false;
    bool quick = false;
    bool profile = false;  // one launch of each kernel, between calls that start and stop a profiler
    int repetitions = 12;
    int warmup = 3;
    long long size = 0;
    std::string kernel;
};

inline uint64_t digest(const Bench &bench) {
    // The first MiB is enough to tell results apart and quick to copy.
    size_t bytes = std::min<size_t>(bench.result_bytes, 1 << 20);
    std::vector<unsigned char> host(bytes);
    CHECK(cudaMemcpy(host.data(), bench.result, bytes, cudaMemcpyDeviceToHost));
    uint64_t hash = 1469598103934665603ull;
    for (unsigned char byte : host) hash = (hash ^ byte) * 1099511628211ull;
    return hash;
}

inline void measure(const Entry &entry, const Options &options) {
    long long size = options.size                     ? options.size
                     : options.small || options.quick ? entry.small
                                                      : entry.full;
    Bench bench;
    entry.prepare(bench, size);
    auto once = [&] {
        if (bench.reset) bench.reset();
        bench.launch();
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    };
    if (options.small) {
        once();
        std::printf("{\"kernel\":\"%s\",\"size\":%lld,\"digest\":\"%016llx\"}\n", entry.name, size,
                    static_cast<unsigned long long>(digest(bench)));
    } else {
        for (int i = 0; i < options.warmup; i++) once();
        cudaEvent_t start, stop;
        CHECK(cudaEventCreate(&start));
        CHECK(cudaEventCreate(&stop));
        std::vector<float> times;
        for (int i = 0; i < options.repetitions; i++) {
            if (bench.reset) bench.reset();
            CHECK(cudaDeviceSynchronize());
            if (options.profile) CHECK(cudaProfilerStart());
            CHECK(cudaEventRecord(start));
            bench.launch();
            CHECK(cudaEventRecord(stop));
            CHECK(cudaGetLastError());
            CHECK(cudaEventSynchronize(stop));
            if (options.profile) CHECK(cudaProfilerStop());
            float ms = 0;
            CHECK(cudaEventElapsedTime(&ms, start, stop));
            times.push_back(ms);
        }
        std::sort(times.begin(), times.end());
        size_t middle = times.size() / 2;
        float median = times.size() % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
        std::printf(
            "{\"kernel\":\"%s\",\"size\":%lld,\"ms\":%.6f,\"repetitions\":%d,\"digest\":\"%016llx\"}\n",
            entry.name, size, median, options.repetitions,
            static_cast<unsigned long long>(digest(bench)));
        CHECK(cudaEventDestroy(start));
        CHECK(cudaEventDestroy(stop));
    }
    std::fflush(stdout);
}

inline int bench_main(int argc, char **argv, const Entry *entries, size_t count) {
    Options options;
    for (int i = 1; i < argc; i++) {
        std::string argument = argv[i];
        auto value = [&]() -> const char * {
            if (++i < argc) return argv[i];
            std::fprintf(stderr, "%s needs a value\n", argument.c_str());
            std::exit(2);
        };
        if (argument == "--small")
            options.small = true;
        else if (argument == "--quick") {
            options.quick = true;
            options.repetitions = options.warmup = 1;
        } else if (argument == "--profile") {
            options.profile = true;
            options.repetitions = 1;
            options.warmup = 0;
        } else if (argument == "--kernel")
            options.kernel = value();
        else if (argument == "--size")
            options.size = std::atoll(value());
        else if (argument == "--repetitions")
            options.repetitions = std::max(1, std::atoi(value()));
        else if (argument == "--warmup")
            options.warmup = std::atoi(value());
        else {
            std::fprintf(stderr,
                         "usage: %s [--small] [--quick] [--profile] [--kernel NAME] [--size N] [--repetitions N] [--warmup N]\n",
                         argv[0]);
            return 2;
        }
    }
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (!options.kernel.empty() && options.kernel != entries[i].name) continue;
        any = true;
        measure(entries[i], options);
    }
    if (!any) {
        std::fprintf(stderr, "no kernel is called %s\n", options.kernel.c_str());
        return 2;
    }
    return 0;
}
