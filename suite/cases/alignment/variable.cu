// bug: a __device__ array of bytes is used for numbers from an odd place on
// expect: rule=misaligned-access function=fill size=1024
#include "case.h"

__device__ __align__(8) char arena[1024];

__global__ void fill(int *out, int start) {
    double *numbers = reinterpret_cast<double *>(arena + start);
    numbers[threadIdx.x] = threadIdx.x * 0.5;  // BUG
    out[threadIdx.x] = arena[start + 8 * threadIdx.x + 7];
}

int main(int argc, char **argv) {
    int *out = zeroed<int>(64);
    fill<<<1, 64>>>(out, is_bad(argc, argv) ? 20 : 24);
    FINISH();
    print_digest("out", out, 64);
}
