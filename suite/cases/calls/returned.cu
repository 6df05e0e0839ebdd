// bug: a function returns a pointer that has left its buffer for another one
// expect: rule=global-out-of-bounds-write function=mark size=256
#include "case.h"

__device__ __noinline__ int *row(int *table, long long y, int width) { return table + y * width; }

__global__ void mark(int *table, long long y, int width) {
    row(table, y, width)[threadIdx.x] = 7;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *table = zeroed<int>(64);
    int *other = zeroed<int>(64);
    mark<<<1, 16>>>(table, bad ? (other - table) / 16 : 3, 16);
    FINISH();
    print_digest("other", other, 64);
    CHECK(cudaFree(table));
    CHECK(cudaFree(other));
}
