// bug: one kernel allocates, a later one reads past the end through a table of pointers
// expect: rule=global-out-of-bounds-read function=take size=32
#include "case.h"

__global__ void make(int **table) {
    int *list = static_cast<int *>(malloc(32));
    if (list)
        for (int i = 0; i < 8; i++) list[i] = i + 10 * threadIdx.x;
    table[threadIdx.x] = list;
}

__global__ void take(int **table, int *out, int index) {
    out[threadIdx.x] = table[threadIdx.x][index];  // BUG
}

__global__ void drop(int **table) { free(table[threadIdx.x]); }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int **table = zeroed<int *>(4);
    int *out = zeroed<int>(4);
    make<<<1, 4>>>(table);
    take<<<1, 4>>>(table, out, 7 + bad);
    drop<<<1, 4>>>(table);
    FINISH();
    if (!bad) print_digest("out", out, 4);
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
}
