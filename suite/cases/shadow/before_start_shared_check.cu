// bug: of accesses that share a check, only the first one is outside: before the buffer
// run: protect=shadow prove=off
// expect: rule=global-out-of-bounds-write function=shift size=4096
#include "case.h"

__global__ void shift(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || i % 3) return;
    data[i - 1] = i;  // BUG
    data[i] = i + 1;
    data[i + 1] = i + 2;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(1024);
    shift<<<4, 256>>>(data + 3 * !bad, 1024 - 4);
    FINISH();
    if (!bad) print_digest("data", data, 1024);
    CHECK(cudaFree(data));
}
