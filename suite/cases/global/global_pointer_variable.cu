// bug: a __device__ pointer variable is set from the host and overrun
// expect: rule=global-out-of-bounds-write function=append size=132
#include "case.h"

__device__ int *log_buffer;

__global__ void append(int n) {
    int i = threadIdx.x;
    if (i < n)
        log_buffer[i] = i + 1000;  // BUG
}

int main() {
    const int n = 33;
    int *buffer = zeroed<int>(n);
    CHECK(cudaMemcpyToSymbol(log_buffer, &buffer, sizeof buffer));
    append<<<1, 64>>>(n + bad);
    FINISH();
    print_digest("buffer", buffer, n);
}
