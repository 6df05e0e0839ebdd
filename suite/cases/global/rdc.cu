// bug: the access is in another translation unit (relocatable device code)
// build: rdc parts/rdc_access.cu
// expect: rule=global-out-of-bounds-write function=store_checked size=388
#include "case.h"

extern __device__ void store_checked(int *data, int index, int value);
extern __device__ int offset_of_unit;

__global__ void spread(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) store_checked(data, i + offset_of_unit, i * 2);
}

int main() {
    const int n = 97;
    int *data = zeroed<int>(n);
    spread<<<1, 128>>>(data, n + bad);
    FINISH();
    print_digest("data", data, n);
}
