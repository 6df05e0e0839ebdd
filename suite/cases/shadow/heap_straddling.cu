// bug: a vector of memory from malloc in a kernel ends behind its block
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=_Z4last size=72
#include "case.h"

__global__ void make(char **table) {
    table[threadIdx.x] = static_cast<char *>(malloc(72));
    for (int i = 0; i < 72; i++) table[threadIdx.x][i] = i + threadIdx.x;
}

__global__ void last(char **table, int *out, int at) {
    int4 four = *reinterpret_cast<const int4 *>(table[threadIdx.x] + at);  // BUG
    out[threadIdx.x] = four.x + four.y + (at == 48 ? four.w : 0);
}

__global__ void drop(char **table) { free(table[threadIdx.x]); }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char **table = zeroed<char *>(8);
    int *out = zeroed<int>(8);
    make<<<1, 8>>>(table);
    last<<<1, 8>>>(table, out, bad ? 64 : 48);
    drop<<<1, 8>>>(table);
    FINISH();
    if (!bad) print_digest("out", out, 8);
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
}
