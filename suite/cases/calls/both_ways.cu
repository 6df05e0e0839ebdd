// bug: a function is called by name and through a pointer, and overruns by name
// expect: rule=shared-out-of-bounds-write function=scale size=128
#include "case.h"

__device__ __noinline__ void scale(float *values, int n) {
    for (int i = 0; i < n; i++) values[i] *= 2;  // BUG
}

__device__ void (*const volatile chosen)(float *, int) = scale;

__global__ void run(float *data, int n, int pick) {
    __shared__ float first[32], second[32];
    first[threadIdx.x] = second[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        scale(first, n);
        chosen(second, 32);
        chosen(data, 32);
    }
    __syncthreads();
    data[threadIdx.x] += first[threadIdx.x] + second[(threadIdx.x + pick) % 32];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *data = zeroed<float>(32);
    run<<<1, 32>>>(data, 32 + bad, 3);
    FINISH();
    print_digest("data", data, bad ? 0 : 32);
    CHECK(cudaFree(data));
}
