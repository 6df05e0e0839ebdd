// bug: a local array is written one element before its start
// run: protect=shadow shadow-encoding=128
// expect: rule=local-out-of-bounds-write function=ranks size=64
#include "case.h"

__global__ void ranks(const int *keys, int *out, int n, int first) {
    int count[16];
    for (int i = 0; i < 16; i++) count[i] = 0;
    for (int i = 0; i < n; i++) count[(keys[i] + first) & 15]++;
    int at = first - 1;
    count[at] = threadIdx.x;  // BUG
    int total = 0;
    for (int i = 0; i < 16; i++) total += count[i] * i;
    out[threadIdx.x] = total;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *keys = upload(counting<int>(40)), *out = zeroed<int>(32);
    ranks<<<1, 32>>>(keys, out, 40, bad ? 0 : 1);
    FINISH();
    if (!bad) print_digest("out", out, 32);
    CHECK(cudaFree(keys));
    CHECK(cudaFree(out));
}
