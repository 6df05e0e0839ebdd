// bug: a kernel never frees what it allocated
// run: leak-check=full
// expect: rule=memory-leak leak size=48
#include "case.h"

__global__ void squares(int *out, int keep) {
    int *list = static_cast<int *>(malloc(48));  // BUG
    if (!list) return;
    for (int i = 0; i < 12; i++) list[i] = i * i;
    out[threadIdx.x] = list[threadIdx.x];
    if (!keep) free(list);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(4);
    squares<<<1, 4>>>(out, bad);
    FINISH();
    print_digest("out", out, 4);
    CHECK(cudaFree(out));
}
