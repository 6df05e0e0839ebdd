// For cases in which something is found while kernels run: kernels that stay
// for a while, and the time at which they did what they should not. With the
// argument `times` that is printed, in nanoseconds of the device's clock.
//
// Buffers come from the host, or, with FINE defined, from a kernel.
#pragma once
#include "case.h"

struct Times {
    unsigned long long began, wrote, ended, may_write;
};

__device__ __forceinline__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

// Stays for so many nanoseconds.
__device__ __forceinline__ void stay(Times *times, unsigned long long nanoseconds) {
    const unsigned long long from = now();
    while (now() - from < nanoseconds) __nanosleep(50000);
    times->ended = now();
}

// Waits for a word that another kernel, or the host, writes; for two seconds at
// most.
__device__ __forceinline__ void wait_for(const unsigned long long *word) {
    const unsigned long long from = now();
    while (*(const volatile unsigned long long *)word == 0 && now() - from < 2000000000) __nanosleep(1000);
}

// Has a kernel loaded: a first launch could wait for those that run.
static void load(const void *kernel) {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel));
}

static Times *host_times() {
    Times *times;
    CHECK(cudaHostAlloc(&times, sizeof(Times), cudaHostAllocMapped));
    *times = Times{};
    return times;
}

static void print_times(int argc, char **argv, const char *kernel, const Times *times) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "times"))
            printf("%s %llu %llu %llu\n", kernel, times->began, times->wrote, times->ended);
}

// How long a kernel stays: long enough to be seen at work on the CPU device,
// or the milliseconds that the argument after `times` gives.
static unsigned long long duration(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "times")) return strtoull(argv[i + 1], nullptr, 10) * 1000;
    return 400000000ull;
}

#ifdef FINE
__global__ void make_on_device(int **place, int count) { *place = (int *)malloc(count * sizeof(int)); }
__global__ void drop_on_device(int *pointer) { free(pointer); }

static int *make(int count) {
    int **place, *pointer;
    CHECK(cudaMallocManaged(&place, sizeof *place));
    make_on_device<<<1, 1>>>(place, count);
    FINISH();
    pointer = *place;
    CHECK(cudaFree(place));
    return pointer;
}

static void drop(int *pointer) {
    drop_on_device<<<1, 1>>>(pointer);
    FINISH();
}
#else
static int *make(int count) { return zeroed<int>(count); }
static void drop(int *pointer) { CHECK(cudaFree(pointer)); }
#endif
