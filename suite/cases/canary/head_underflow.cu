// bug: a kernel writes the element before its buffer
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z5shiftPdi argument=0 at=-1 size=8192
#include "case.h"

__global__ void shift(double *data, int by) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    data[i - by] = i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 1024;
    double *data = zeroed<double>(n);
    shift<<<4, 256>>>(data, bad ? 1 : 0);
    FINISH();
    print_digest("data", data, n);
    CHECK(cudaFree(data));
}
