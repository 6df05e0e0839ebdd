// bug: three kernels of one program each have a bug of their own
// expect: rule=global-out-of-bounds-write function=first_kernel size=400
// expect: rule=global-out-of-bounds-read function=second_kernel size=404
// expect: rule=global-out-of-bounds-atomic function=third_kernel size=4
#include "case.h"

__global__ void first_kernel(int *data, int n) {
    if (threadIdx.x < n) data[threadIdx.x] = threadIdx.x;  // BUG
}

__global__ void second_kernel(const int *in, int *out, int n) {
    if (threadIdx.x < n) out[threadIdx.x % 100] = in[threadIdx.x + 1];  // BUG
}

__global__ void third_kernel(int *counter, int which) {
    atomicAdd(counter + which, 1);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(100), *in = upload(counting<int>(101)), *counter = zeroed<int>(1);
    for (int round = 0; round < 2; round++) {
        first_kernel<<<1, 128>>>(data, 100 + bad);
        second_kernel<<<1, 128>>>(in, data, 100 + bad);
        third_kernel<<<1, 32>>>(counter, bad);
    }
    FINISH();
    if (!bad) print_digest("data", data, 100);
    print_digest("counter", counter, 1);
    CHECK(cudaFree(data));
    CHECK(cudaFree(in));
    CHECK(cudaFree(counter));
}
