// bug: under watch alone, a kernel frees a pointer into the middle of its memory, and one that malloc never gave
// run: protect=watch
// expect: rule=invalid-free function=give_back size=64
// expect: rule=invalid-free function=give_away
#include "case.h"

__device__ __noinline__ void give_back(int *list) {
    free(list);  // BUG
}

__device__ __noinline__ void give_away(int *list) {
    free(list);  // BUG
}

__global__ void run(int *out, int skip) {
    int *list = static_cast<int *>(malloc(64));
    if (!list) return;
    list[skip] = threadIdx.x;
    out[threadIdx.x] = list[skip];
    give_back(list + skip);
    give_away(skip ? out : nullptr);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(4);
    run<<<1, 4>>>(out, bad ? 4 : 0);
    FINISH();
    print_digest("out", out, 4);
    CHECK(cudaFree(out));
}
