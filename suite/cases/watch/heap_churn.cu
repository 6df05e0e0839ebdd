// bug: of many threads that allocate and free all the time, blocks of all sizes, one writes a byte too many once
// run: protect=watch
// expect: rule=canary-overwritten kernel=churn at=0 size=33
#include "case.h"

// Allocates, and frees what it allocated some rounds ago.
extern "C" __global__ void churn(unsigned *out, int bad) {
    const int KEPT = 3, ROUNDS = 40;
    unsigned char *kept[KEPT] = {};
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, seed = thread * 2654435761u, sum = 0;
    int sizes[KEPT] = {};
    for (int round = 0; round < ROUNDS; round++) {
        int place = round % KEPT;
        if (int size = sizes[place]) sum += kept[place][0] - kept[place][size - 1];
        free(kept[place]);
        seed = seed * 1664525u + 1013904223u;
        int size = seed >> 16 & 511;
        if (thread == 300 && round == 20) size = 33;
        if (round % 16 == 15) size = 20000;
        unsigned char *block = static_cast<unsigned char *>(malloc(size));
        kept[place] = block;
        sizes[place] = block ? size : 0;
        if (sizes[place]) block[0] = block[size - 1] = thread + round;
        if (block && bad && thread == 300 && round == 20) block[33]++;
    }
    for (int place = 0; place < KEPT; place++) free(kept[place]);
    out[thread] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned *out = zeroed<unsigned>(512);
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20));
    churn<<<4, 128>>>(out, bad);  // BUG
    FINISH();
    print_digest("out", out, 512);
    CHECK(cudaFree(out));
}
