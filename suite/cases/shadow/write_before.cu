// bug: a kernel writes into the redzone before a buffer
// run: protect=shadow
// expect: rule=global-out-of-bounds-write function=shift size=1024
#include "case.h"

__global__ void shift(int *data, int by, int n) {
    int i = threadIdx.x;
    if (i < n) data[i - by] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(256);
    shift<<<1, 256>>>(data, bad, 256);
    FINISH();
    print_digest("data", data, 256);
    CHECK(cudaFree(data));
}
