// bug: memory from malloc in a kernel is written past its end
// expect: rule=global-out-of-bounds-write function=build size=40
#include "case.h"

__global__ void build(int *out, int n) {
    int *list = static_cast<int *>(malloc(10 * sizeof(int)));
    if (!list) return;
    for (int i = 0; i < n; i++)
        list[i] = i * threadIdx.x;  // BUG
    out[threadIdx.x] = list[n / 2] + list[9];
    free(list);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(8);
    build<<<1, 8>>>(out, 10 + bad);
    FINISH();
    print_digest("out", out, 8);
    CHECK(cudaFree(out));
}
