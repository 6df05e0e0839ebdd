// bug: memory from malloc in a kernel is read where another thread's begins
// expect: rule=global-out-of-bounds-read function=exchange size=64
#include "case.h"

__global__ void exchange(int *out, int distance) {
    int *own = static_cast<int *>(malloc(64));
    if (!own) return;
    for (int i = 0; i < 16; i++) own[i] = i + threadIdx.x;
    out[threadIdx.x] = own[15 + distance];  // BUG
    free(own);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(8);
    exchange<<<1, 8>>>(out, bad ? 8 : 0);
    FINISH();
    if (!bad) print_digest("out", out, 8);
    CHECK(cudaFree(out));
}
