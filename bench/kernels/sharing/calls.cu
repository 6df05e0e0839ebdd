// Times of single calls. For each line on standard input it prints
//   {"times":[...]}
// in the order of `NAMES` in bench/src/sharing/calls.rs: microseconds, and for
// copies of 256 MiB bytes for each nanosecond (GB/s). The first line of the output says that all is warm.
#include "../clock.h"
#include "work.h"

__global__ void take(const float *a, const float *b, float *c, int n) {
    int i = threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

struct Calls {
    bool is_small;
    float *a, *b, *c;
    char *large;
    size_t bytes;
    std::vector<char> pageable;
    char *pinned;

    explicit Calls(bool is_small) : is_small(is_small), bytes(is_small ? 1 << 20 : 256 << 20) {
        a = device_memory<float>(1024);
        b = device_memory<float>(1024);
        c = device_memory<float>(1024);
        CHECK(cudaMemset(a, 0, 4096));
        CHECK(cudaMemset(b, 0, 4096));
        large = device_memory<char>(bytes);
        pageable.assign(bytes, 1);
        CHECK(cudaMallocHost(&pinned, bytes));
        std::memset(pinned, 2, bytes);
    }

    // Median microseconds of `what`, called `count` times.
    template <typename F>
    double each(int count, F what) {
        if (is_small) count = 3;
        std::vector<double> times;
        for (int i = 0; i < count; i++) {
            auto start = Clock::now();
            what();
            times.push_back(microseconds(start));
        }
        return middle(times);
    }

    void launch() { take<<<1, 32>>>(a, b, c, 32); }

    // GB/s of a copy of all bytes.
    double rate(void *to, const void *from, cudaMemcpyKind kind) {
        double us = each(5, [&] { CHECK(cudaMemcpy(to, from, bytes, kind)); });
        return bytes / us / 1000;
    }

    void turn(std::vector<double> &out) {
        // Few enough that no queue fills.
        const int batch = is_small ? 4 : 200;
        std::vector<double> times;
        for (int i = 0; i < (is_small ? 2 : 20); i++) {
            auto start = Clock::now();
            for (int k = 0; k < batch; k++) launch();
            times.push_back(microseconds(start) / batch);
            wait();
        }
        out.push_back(middle(times));
        out.push_back(each(500, [&] {
            launch();
            CHECK(cudaDeviceSynchronize());
        }));
        out.push_back(each(500, [&] {
            launch();
            CHECK(cudaStreamSynchronize(0));
        }));
        out.push_back(each(300, [&] {
            void *memory = nullptr;
            CHECK(cudaMalloc(&memory, 4096));
            CHECK(cudaFree(memory));
        }));
        out.push_back(each(100, [&] {
            void *memory = nullptr;
            CHECK(cudaMalloc(&memory, 4 << 20));
            CHECK(cudaFree(memory));
        }));
        for (size_t size : {64, 4096, 256 << 10}) {
            out.push_back(each(300, [&] { CHECK(cudaMemcpy(large, pageable.data(), size, cudaMemcpyHostToDevice)); }));
            out.push_back(each(300, [&] { CHECK(cudaMemcpy(pageable.data(), large, size, cudaMemcpyDeviceToHost)); }));
        }
        out.push_back(rate(large, pageable.data(), cudaMemcpyHostToDevice));
        out.push_back(rate(pageable.data(), large, cudaMemcpyDeviceToHost));
        out.push_back(rate(large, pinned, cudaMemcpyHostToDevice));
        out.push_back(rate(pinned, large, cudaMemcpyDeviceToHost));
    }
};

int calls(bool is_small) {
    Calls calls(is_small);
    std::vector<double> times;
    calls.turn(times);
    std::printf("{\"ready\":true}\n");
    std::fflush(stdout);
    for (int next; (next = std::getchar()) != EOF;) {
        if (next != '\n') continue;
        times.clear();
        calls.turn(times);
        std::printf("{\"times\":[");
        for (size_t i = 0; i < times.size(); i++) std::printf("%s%.4f", i ? "," : "", times[i]);
        std::printf("]}\n");
        std::fflush(stdout);
    }
    CHECK(cudaFreeHost(calls.pinned));
    return 0;
}
