// Ends a program at a call that fails, and names the call and the error.
#pragma once
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error != cudaSuccess) {                                                       \
            std::printf("%s: %s\n", #call, cudaGetErrorName(error));                      \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)
