// bug: one of two local arrays of different length is chosen at run time
// expect: rule=local-out-of-bounds-read function=choose size=32
#include "case.h"

__device__ __noinline__ const int *pick_longer(const int *a, const int *b, int which) {
    return which ? a : b;
}

__global__ void choose(int *out, int which, int index) {
    int lengthy[24], brief[8];
    for (int i = 0; i < 24; i++) lengthy[i] = i * threadIdx.x;
    for (int i = 0; i < 8; i++) brief[i] = i + threadIdx.x;
    const int *chosen = pick_longer(lengthy, brief, which);
    out[threadIdx.x] = chosen[index];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    choose<<<1, 32>>>(out, 1, 23);
    choose<<<1, 32>>>(out, bad ? 0 : 1, 8);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
