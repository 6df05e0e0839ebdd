// bug: a __managed__ array is written before its start
// expect: rule=global-out-of-bounds-write function=shift size=256
#include "case.h"

__managed__ int ahead[64];
__managed__ int line[64];

__global__ void shift(int by) {
    int value = line[threadIdx.x] + ahead[threadIdx.x];
    __syncthreads();
    line[static_cast<int>(threadIdx.x) - by] = value;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    for (int i = 0; i < 64; i++) line[i] = i;
    shift<<<1, 64>>>(bad);
    FINISH();
    std::printf("line %016llx\n", digest_bytes(line, bad ? 0 : 256));
}
