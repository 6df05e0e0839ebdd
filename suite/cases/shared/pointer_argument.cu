// bug: a function that is not inlined gets a pointer to a shared array and a count one too large
// expect: rule=shared-out-of-bounds-read function=total size=400
#include "case.h"

__device__ __noinline__ int total(const int *values, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];  // BUG
    return sum;
}

__global__ void totals(int *out, int n) {
    __shared__ int behind[8];
    __shared__ int values[100];
    int i = threadIdx.x;
    if (i < 8) behind[i] = i;
    if (i < 100) values[i] = i;
    __syncthreads();
    if (i == 0) out[0] = total(values, n);
    if (i < 8) out[1 + i] = behind[7 - i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(9);
    totals<<<1, 128>>>(out, 100 + bad);
    FINISH();
    print_digest("out", out, 9);
    CHECK(cudaFree(out));
}
