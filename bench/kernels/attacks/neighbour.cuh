// What the neighbour of an attack computes: integers and floats in several
// buffers, in streams, with all kinds of copies. After each round it reads back
// all of its memory and prints a digest, which depends on nothing but the number
// of the round modulo PERIOD.
#pragma once
#include "driver.h"
#include "secret.h"
#include <cstring>
#include <functional>
#include <vector>

constexpr int PERIOD = 16;

__device__ uint32_t neighbour_table[256];
__constant__ uint32_t neighbour_factors[8];

__global__ void neighbour_integers(uint32_t *data, int n, uint32_t round) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    uint32_t value = data[at];
    for (int step = 0; step < 24; step++)
        value = value * neighbour_factors[step % 8] + (value >> 7) + neighbour_table[(value + round) % 256];
    data[at] = value;
}

__global__ void neighbour_floats(const float *from, float *to, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float left = from[at ? at - 1 : n - 1], right = from[at + 1 < n ? at + 1 : 0];
    float value = from[at];
    for (int step = 0; step < 8; step++) value = fmaf(value, 0.5f, 0.25f * (left + right));
    to[at] = sqrtf(value * value + 0.125f);
}

__global__ void neighbour_sums(const uint32_t *data, int n, uint32_t *out) {
    __shared__ uint32_t partial[128];
    uint32_t own = 0;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x)
        own += data[at] ^ at;
    partial[threadIdx.x] = own;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(&out[blockIdx.x % 16], partial[0]);
}

// Fills shared memory, local memory and registers with the secret, which comes
// from memory: nothing of it is in the code.
__global__ void neighbour_secrets(const uint32_t *secret, int words, uint32_t *out) {
    extern __shared__ uint32_t shared[];
    uint32_t local[64];
    for (int at = threadIdx.x; at < words; at += blockDim.x) shared[at] = secret[at];
    for (int at = 0; at < 64; at++) local[(at * 7 + threadIdx.x) % 64] = secret[at];
    uint32_t registers[32];
#pragma unroll
    for (int at = 0; at < 32; at++) registers[at] = secret[at + 64];
    __syncthreads();
    uint32_t sum = shared[(threadIdx.x * 13) % words] ^ local[threadIdx.x % 64];
#pragma unroll
    for (int at = 0; at < 32; at++) sum = sum * 3 + registers[at];
    if (threadIdx.x == 0 && blockIdx.x == 0) out[16] = sum;
}

struct Neighbour {
    int n;
    cudaStream_t stream;
    cudaEvent_t event;
    uint32_t *integers, *secret, *sums;
    float *floats[2];

    explicit Neighbour(bool is_large) : n(is_large ? 1 << 20 : 1 << 13) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&event));
        CHECK(cudaMalloc(&integers, 4 * n));
        CHECK(cudaMalloc(&secret, 4 * n));
        CHECK(cudaMalloc(&sums, 4 * 32));
        for (float *&buffer : floats) CHECK(cudaMalloc(&buffer, 4 * n));
        std::vector<uint32_t> words(n, SECRET);
        CHECK(cudaMemcpy(secret, words.data(), 4 * n, cudaMemcpyHostToDevice));
        for (int at = 0; at < 256; at++) words[at] = at * 2654435761u;
        CHECK(cudaMemcpyToSymbol(neighbour_table, words.data(), 4 * 256));
        for (int at = 0; at < 8; at++) words[at] = 1664525u + 8 * at;
        CHECK(cudaMemcpyToSymbol(neighbour_factors, words.data(), 4 * 8));
    }

    // Where its memory is: `memory NAME ADDRESS BYTES`.
    void tell() const {
        std::printf("memory integers %llu %d\n", (unsigned long long)integers, 4 * n);
        std::printf("memory secret %llu %d\n", (unsigned long long)secret, 4 * n);
        std::printf("memory floats %llu %d\n", (unsigned long long)floats[0], 4 * n);
        std::fflush(stdout);
    }

    void start() {
        std::vector<uint32_t> words(n);
        std::vector<float> reals(n);
        for (int at = 0; at < n; at++) words[at] = at * 2246822519u + 7;
        for (int at = 0; at < n; at++) reals[at] = (at % 1000) * 0.001f;
        CHECK(cudaMemcpyAsync(integers, words.data(), 4 * n, cudaMemcpyHostToDevice, stream));
        for (float *buffer : floats)
            CHECK(cudaMemcpyAsync(buffer, reals.data(), 4 * n, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemsetAsync(sums, 0, 4 * 32, stream));
        CHECK(cudaStreamSynchronize(stream));
    }

    // One round, and the digest of all memory after it.
    uint64_t round(int number) {
        if (number % PERIOD == 0) start();
        int blocks = (n + 127) / 128;
        neighbour_integers<<<blocks, 128, 0, stream>>>(integers, n, number % PERIOD);
        neighbour_floats<<<blocks, 128, 0, stream>>>(floats[0], floats[1], n);
        CHECK(cudaMemcpyAsync(floats[0], floats[1], 4 * n, cudaMemcpyDeviceToDevice, stream));
        neighbour_sums<<<8, 128, 0, stream>>>(integers, n, sums);
        neighbour_secrets<<<4, 64, 32 << 10, stream>>>(secret, 8 << 10, sums);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaEventSynchronize(event));
        // As most programs do: waits for all work of its context.
        CHECK(cudaDeviceSynchronize());
        uint64_t hash = 1469598103934665603ull;
        auto add = [&](const std::vector<uint32_t> &words) {
            for (uint32_t word : words) hash = (hash ^ word) * 1099511628211ull;
        };
        std::vector<uint32_t> words(n);
        const void *all[] = {integers, secret, floats[0], floats[1]};
        for (const void *buffer : all) {
            CHECK(cudaMemcpyAsync(words.data(), buffer, 4 * n, cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamSynchronize(stream));
            add(words);
        }
        words.resize(32);
        CHECK(cudaMemcpy(words.data(), sums, 4 * 32, cudaMemcpyDeviceToHost));
        add(words);
        words.resize(256);
        CHECK(cudaMemcpyFromSymbol(words.data(), neighbour_table, 4 * 256));
        add(words);
        words.resize(8);
        CHECK(cudaMemcpyFromSymbol(words.data(), neighbour_factors, 4 * 8));
        add(words);
        return hash;
    }

    // Rounds until `is_over(number of the next one)`; a line for each:
    // `round NUMBER DIGEST`.
    void run(const std::function<bool(int)> &is_over) {
        for (int number = 0; !is_over(number); number++) {
            uint64_t hash = round(number);
            std::printf("round %d %016llx\n", number, (unsigned long long)hash);
            std::fflush(stdout);
        }
    }
};
