// bug: a function of another file, called through a pointer, writes past a buffer
// build: rdc parts/rdc_pointed.cu
// expect: rule=global-out-of-bounds-write function=put size=388
#include "case.h"

typedef void (*Put)(int *data, int i);
extern __device__ Put put_pointer;

__device__ __noinline__ void put_here(int *data, int i) {
    data[i] = i;  // BUG
}

__device__ __noinline__ void put_twice(int *data, int i) {
    data[i] = 2 * i;  // BUG
}

__device__ Put here[2] = {put_here, put_twice};

__global__ void spread(int *data, int n) {
    const int i = threadIdx.x;
    const Put put = i % 3 == 0 ? put_pointer : here[i % 2];
    if (i < n) put(data, i);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 97;
    int *data = zeroed<int>(n);
    spread<<<1, 128>>>(data, n + 3 * bad);
    FINISH();
    print_digest("data", data, n);
    CHECK(cudaFree(data));
}
