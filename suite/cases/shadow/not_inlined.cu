// bug: a function that is not inlined adds atomically past the end of a buffer
// run: protect=shadow
// expect: rule=global-out-of-bounds-atomic function=add size=192
#include "case.h"

__device__ __noinline__ void add(unsigned *bins, unsigned at) {
    atomicAdd(bins + at, 1u);  // BUG
}

__global__ void histogram(const unsigned *in, unsigned *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) add(bins, in[i] % 49);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<unsigned> host = counting<unsigned>(256);
    if (!bad)
        for (unsigned &value : host) value %= 48;
    else
        for (unsigned &value : host) value = 48;
    unsigned *in = upload(host), *bins = zeroed<unsigned>(48);
    histogram<<<2, 128>>>(in, bins, 256);
    FINISH();
    if (!bad) print_digest("bins", bins, 48);
    CHECK(cudaFree(in));
    CHECK(cudaFree(bins));
}
