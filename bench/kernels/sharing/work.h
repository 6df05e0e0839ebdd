// A program of the bench of sharing: what it has allocated, and its rounds.
#pragma once
#include "../harness.h"
#include <memory>

struct Work {
    virtual ~Work() = default;
    // One round of a few milliseconds: puts its work, and waits for it.
    virtual void round() = 0;
    // A digest of what all rounds have computed.
    virtual uint64_t digest() = 0;
};

inline void wait() {
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

template <typename T>
T *device_memory(size_t count) {
    T *memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    return memory;
}

// FNV-1a of the first MiB.
template <typename T>
uint64_t digest_of(const T *device, size_t count) {
    std::vector<unsigned char> bytes(std::min<size_t>(count * sizeof(T), 1 << 20));
    CHECK(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost));
    uint64_t hash = 1469598103934665603ull;
    for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ull;
    return hash;
}

// A number between 0 and 1 for an index: the same on every run.
__host__ __device__ inline float number_of(unsigned index) {
    unsigned bits = index * 2654435761u;
    bits ^= bits >> 15;
    bits *= 2246822519u;
    bits ^= bits >> 13;
    return (bits >> 8) * (1.0f / (1 << 24));
}

std::unique_ptr<Work> make_compute(bool is_small);
std::unique_ptr<Work> make_memory(bool is_small);
std::unique_ptr<Work> make_gather(bool is_small);
std::unique_ptr<Work> make_launch(bool is_small);
std::unique_ptr<Work> make_train(bool is_small);
std::unique_ptr<Work> make_empty(bool is_small);

// Times of calls (calls.cu).
int calls(bool is_small);
