// bug: dynamic shared memory is carved into bytes and then doubles, without rounding up
// expect: rule=misaligned-access function=carve size=1024
#include "case.h"

extern __shared__ __align__(16) char scratch[];

__global__ void carve(double *out, int flags) {
    char *bytes = scratch;
    double *numbers = reinterpret_cast<double *>(scratch + flags);
    if (threadIdx.x < flags) bytes[threadIdx.x] = threadIdx.x;
    numbers[threadIdx.x] = threadIdx.x;  // BUG
    __syncthreads();
    out[threadIdx.x] = numbers[63 - threadIdx.x] + bytes[threadIdx.x % flags];  // BUG
}

int main(int argc, char **argv) {
    double *out = zeroed<double>(64);
    carve<<<1, 64, 1024>>>(out, is_bad(argc, argv) ? 37 : 40);
    FINISH();
    print_digest("out", out, 64);
}
