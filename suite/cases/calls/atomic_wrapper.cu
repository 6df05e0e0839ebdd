// bug: built with -G: atomicAdd is a function that is called, and the call has a bin too few
// build: flags=-G
// expect: rule=global-out-of-bounds-atomic function=histogram size=256
#include "case.h"

__global__ void histogram(const unsigned char *keys, int n, unsigned *bins, unsigned *total) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        atomicAdd(total, 1u);
        atomicAdd(&bins[__ldg(&keys[i])], 1u);  // BUG
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 500;
    std::vector<unsigned char> keys(n);
    for (int i = 0; i < n; i++) keys[i] = static_cast<unsigned char>(i % 64);
    keys[n - 1] = static_cast<unsigned char>(63 + bad);
    unsigned *bins = zeroed<unsigned>(64), *total = zeroed<unsigned>(1);
    histogram<<<1, 128>>>(upload(keys), n, bins, total);
    FINISH();
    print_digest("bins", bins, 64);
}
