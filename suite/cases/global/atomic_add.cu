// bug: a histogram has one bin too few for its largest key
// expect: rule=global-out-of-bounds-atomic function=histogram size=256
#include "case.h"

__global__ void histogram(const unsigned char *keys, int n, unsigned *bins) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[keys[i]], 1u);  // BUG
}

int main() {
    const int n = 5000;
    std::vector<unsigned char> keys(n);
    for (int i = 0; i < n; i++) keys[i] = static_cast<unsigned char>(i % 64);
    keys[n - 1] = static_cast<unsigned char>(63 + bad);
    unsigned *bins = zeroed<unsigned>(64);
    histogram<<<4, 128>>>(upload(keys), n, bins);
    FINISH();
    print_digest("bins", bins, 64);
}
