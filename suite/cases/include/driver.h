// For cases that call the driver API: its functions as the runtime finds
// them, so that no program needs libcuda to be linked.
#pragma once
#include "case.h"
#include <cuda.h>

#define CHECK_DRIVER(call)                                                     \
    do {                                                                       \
        CUresult status_ = (call);                                             \
        if (status_ != CUDA_SUCCESS) {                                         \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, \
                         static_cast<int>(status_));                           \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

// As TRY, for the driver API.
#define TRY_DRIVER(call)                                                                           \
    do {                                                                                           \
        CUresult status_ = (call);                                                                 \
        if (status_ != CUDA_SUCCESS)                                                               \
            std::fprintf(stderr, "CUDA error: %s: %d\n", #call, static_cast<int>(status_)); \
    } while (0)

inline void *entry_point(const char *name, int version) {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) {
        std::fprintf(stderr, "%s is not there\n", name);
        std::exit(1);
    }
    return function;
}

// `DRIVER(cuMemAlloc)(&pointer, 100)`: the function that cuda.h declares.
#define DRIVER(name) reinterpret_cast<decltype(&name)>(entry_point(#name, 12000))
