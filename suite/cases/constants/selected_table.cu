// bug: the table is selected by a condition, and the index is one of the longer table
// expect: rule=constant-out-of-bounds-read function=lookup size=24
#include "case.h"

__constant__ int squares[10] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81};
__constant__ int primes[6] = {2, 3, 5, 7, 11, 13};
__constant__ short signs[4] = {1, -1, 1, -1};

__global__ void lookup(const int *in, int *out, int length) {
    const int *table = in[threadIdx.x] % 2 ? primes : squares;
    int sum = 0;
    // The pointer moves, as in code that was written with iterators.
    for (int i = 0; i < length; i++, table++) {
        sum += *table * signs[i % 4];  // BUG
    }
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(32));
    int *out = zeroed<int>(32);
    lookup<<<1, 32>>>(in, out, bad ? 8 : 6);
    FINISH();
    print_digest("out", out, bad ? 1 : 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
