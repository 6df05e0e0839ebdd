// bug: a kernel writes past the end of managed memory, which lies far from the other buffers
// run: protect=shadow
// expect: rule=global-out-of-bounds-write function=square size=1200
#include "case.h"

__global__ void square(const int *by, int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = by[i] * i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 300;
    int *by = zeroed<int>(1 << 20), *data = nullptr;
    CHECK(cudaMallocManaged(&data, n * sizeof(int)));
    for (int i = 0; i < n; i++) data[i] = 1;
    square<<<2, 256>>>(by, data, n + bad);
    FINISH();
    long long sum = 0;
    for (int i = 0; i < n; i++) sum += data[i];
    std::printf("sum %lld\n", sum);
    CHECK(cudaFree(data));
    CHECK(cudaFree(by));
}
