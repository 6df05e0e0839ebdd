// What all attacks share: what they know of the neighbour, and what they report.
#pragma once
#include "driver.h"
#include "secret.h"
#include <string>

// What an attack aims at, and how it is run.
struct Target {
    // The neighbour's buffers: of words, full of the secret, of floats.
    uint64_t integers = 0, secret = 0, floats = 0, bytes = 0;
    // First byte of the neighbour's partition, where it has one.
    uint64_t partition = 0;
    // In the neighbour's own context, unfenced.
    bool is_beside = false;
    bool is_large = false;

    // The attacker's own memory.
    uint32_t *own = nullptr;
    uint32_t *found = nullptr;
    cudaStream_t stream = nullptr;

    static constexpr uint64_t OWN_BYTES = 4096;

    void make() {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaMalloc(&own, OWN_BYTES));
        CHECK(cudaMalloc(&found, 256));
        CHECK(cudaMemset(own, 0, OWN_BYTES));
        CHECK(cudaMemset(found, 0, 256));
    }
};

// One attempt: its error is the device's answer.
struct Attack {
    const char *name;
    void (*attempt)(Target &, unsigned attempt);
    // Counts words of the secret that it has seen in `found[0]`. (Stores that a
    // fence has moved may lie there, too.)
    bool is_reader = false;
};

// Loads the code of `LOOPS`.
void load_loops();

extern const std::vector<Attack> ACCESSES, ENDS, LOOPS, WAITING, CALLS, COPIES, RESIDUES;

inline uint64_t random_number(uint64_t seed) {
    seed += 0x9e3779b97f4a7c15;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
    return seed ^ (seed >> 31);
}

// The module cannot be loaded: `refused`.
inline CUfunction from_ptx(const char *text, const char *name) {
    CUmodule module;
    CUfunction function = nullptr;
    CUresult result = DRIVER(cuModuleLoadData)(&module, text);
    if (result == CUDA_SUCCESS) result = DRIVER(cuModuleGetFunction)(&function, module, name);
    if (result != CUDA_SUCCESS) std::printf("refused %d\n", (int)result);
    return function;
}

// Launches a kernel that is written in PTX and takes a number and a pointer.
inline void launch_ptx(Target &t, const char *text, const char *name, uint32_t number) {
    CUfunction function = from_ptx(text, name);
    if (!function) return;
    void *arguments[] = {&number, &t.own};
    CUresult result =
        DRIVER(cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0, (CUstream)t.stream, arguments, nullptr);
    if (result != CUDA_SUCCESS) std::printf("answer cuLaunchKernel %d\n", (int)result);
}
