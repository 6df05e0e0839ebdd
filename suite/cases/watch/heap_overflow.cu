// bug: a thread writes past what malloc gave it, and frees it
// run: protect=watch
// expect: rule=canary-overwritten kernel=squares at=0 size=52
#include "case.h"

extern "C" __global__ void squares(int *out, int last) {
    int *list = static_cast<int *>(malloc(13 * sizeof(int)));
    if (!list) return;
    for (int i = 0; i < 13; i++) list[i] = i * i;
    list[last]++;  // (whatever is there, it is another number then)
    out[threadIdx.x] = list[threadIdx.x % 13];
    free(list);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(64);
    squares<<<1, 64>>>(out, 12 + bad);  // BUG
    FINISH();
    print_digest("out", out, 64);
    CHECK(cudaFree(out));
}
