// For cases in which the device stops a kernel: the program sees what it sees
// without Ringfence, error for error.
#pragma once
#include "case.h"

// A wait answers `error`, and so does every call after it. `0`: whatever error
// the device has for it, since a stack that is full is reported in several ways.
#define EXPECT_FAILURE(error)                                                            \
    do {                                                                                 \
        const cudaError_t seen_ = cudaDeviceSynchronize();                               \
        if (seen_ == cudaSuccess || ((error) != cudaSuccess && seen_ != (error))) {      \
            std::fprintf(stderr, "unexpected: %s\n", cudaGetErrorString(seen_));         \
            std::exit(1);                                                                \
        }                                                                                \
        void *memory_ = nullptr;                                                         \
        if (cudaMalloc(&memory_, 64) != seen_ || cudaDeviceSynchronize() != seen_) {     \
            std::fprintf(stderr, "the error went away\n");                               \
            std::exit(1);                                                                \
        }                                                                                \
    } while (0)
