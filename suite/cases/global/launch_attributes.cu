// bug: the faulty kernel is launched by cudaLaunchKernelEx
// expect: rule=global-out-of-bounds-write function=stamp size=300
#include "case.h"

__global__ void stamp(int *out, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = value;  // BUG
}

int main() {
    const int n = 75;
    int *out = zeroed<int>(n);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(3);
    config.blockDim = dim3(32);
    config.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributePriority;
    attribute.val.priority = 0;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, stamp, out, n + bad, 9));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    print_digest("out", out, n);
}
