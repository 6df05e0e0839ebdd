// bug: a kernel writes before the start of a large buffer that lies beside others
// run: protect=shadow shadow-encoding=128
// expect: rule=global-out-of-bounds-write function=shift size=4194304
#include "case.h"

__global__ void shift(float *data, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i - by] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int count = 1 << 20;
    float *first = zeroed<float>(count), *data = zeroed<float>(count), *last = zeroed<float>(count);
    shift<<<4, 256>>>(data, 1024, bad ? 3 : 0);
    FINISH();
    print_digest("data", data, 1000);
    CHECK(cudaFree(first));
    CHECK(cudaFree(data));
    CHECK(cudaFree(last));
}
