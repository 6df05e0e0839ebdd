// bug: memory from malloc in a kernel is read after free
// expect: rule=use-after-free function=last size=64
#include "case.h"

__device__ __noinline__ void release(int *list, int now) {
    if (now) free(list);
}

__global__ void last(int *out, int early) {
    int *list = static_cast<int *>(malloc(64));
    if (!list) return;
    for (int i = 0; i < 16; i++) list[i] = i * i;
    release(list, early);
    out[threadIdx.x] = list[threadIdx.x];  // BUG
    release(list, !early);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(8);
    last<<<1, 8>>>(out, bad);
    FINISH();
    if (!bad) print_digest("out", out, 8);
    CHECK(cudaFree(out));
}
