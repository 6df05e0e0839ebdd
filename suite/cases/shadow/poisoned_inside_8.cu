// bug: a kernel reads eight poisoned bytes, with others of the same buffer right behind them
// run: protect=shadow shadow-encoding=8
// expect: rule=use-after-poison function=sum size=4096
#include "annotate.h"

__global__ void sum(const double *in, double *out, int first) {
    int i = first + (int)threadIdx.x;
    out[threadIdx.x] = in[i] + 1.0;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    double *in = zeroed<double>(512), *out = zeroed<double>(32);
    CHECK(cudaDeviceSynchronize());
    // A header in the middle of the pool.
    CHECK((cudaError_t)ringfence_poison(in + 100, 8));
    sum<<<1, 32>>>(in, out, 101 - bad);
    FINISH();
    if (!bad) print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
