// bug: an array in shared memory that is chosen from a table of pointers is overrun into the next one
// expect: rule=shared-out-of-bounds-write function=relax
#include "case.h"

// Three arrays in turns, from a table of where they start and where they end.
__global__ void relax(int *out, int rounds, int extra) {
    __shared__ int red[64], green[64], blue[64];
    const int t = threadIdx.x;
    red[t] = t;
    green[t] = 2 * t;
    blue[t] = 3 * t;
    __syncthreads();
    int *start[3] = {red, green, blue};
    int *end[3] = {red + 64, green + 64, blue + 64};
    for (int round = 0; round < rounds; round++) {
        const int *from = start[round % 3];
        int *to = start[(round + 1) % 3];
        to[t + extra] = from[63 - t] + 1;  // BUG
        __syncthreads();
    }
    int sum = 0;
    for (int color = 0; color < 3; color++)
        for (const int *at = end[color]; at != start[color];) sum = sum * 5 + *--at;
    out[t] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(64);
    relax<<<1, 64>>>(out, 3, bad);
    FINISH();
    if (!bad) print_digest("out", out, 64);
    CHECK(cudaFree(out));
}
