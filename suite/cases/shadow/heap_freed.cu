// bug: a kernel writes to a block that an earlier kernel has freed
// run: protect=shadow shadow-encoding=128
// expect: rule=use-after-free function=_Z4note size=40
#include "case.h"

__global__ void make(int **table) {
    int *own = static_cast<int *>(malloc(40));
    for (int i = 0; i < 10; i++) own[i] = i;
    table[threadIdx.x] = own;
}

__global__ void drop(int **table, int from) {
    if (threadIdx.x >= from) free(table[threadIdx.x]);
}

__global__ void note(int **table, int *out) {
    table[threadIdx.x][3] += 5;  // BUG
    out[threadIdx.x] = threadIdx.x;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int **table = zeroed<int *>(8);
    int *out = zeroed<int>(8);
    make<<<1, 8>>>(table);
    if (bad) drop<<<1, 8>>>(table, 7);
    note<<<1, 8>>>(table, out);
    if (!bad) drop<<<1, 8>>>(table, 0);
    FINISH();
    print_digest("out", out, 8);
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
}
