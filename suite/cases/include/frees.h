// For cases about frees and leaks: device memory that a kernel has filled.
#pragma once
#include "case.h"

__global__ void fill_all(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = 3 * i;
}

inline int *filled(int count) {
    int *data = zeroed<int>(count);
    fill_all<<<1, count>>>(data, count);
    FINISH();
    print_digest("data", data, count);
    return data;
}
