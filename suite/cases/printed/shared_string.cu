// bug: a shared array without a terminator is printed
// expect: rule=shared-out-of-bounds-read function=spell size=16
#include "case.h"

__global__ void spell(int count, int *out) {
    __shared__ char word[16];
    __shared__ int behind[16];
    behind[threadIdx.x] = 0x21212121;
    word[threadIdx.x] = threadIdx.x < count ? 'a' + threadIdx.x : 0;
    __syncthreads();
    if (threadIdx.x == 0) printf("%d letters: %s\n", count, word);  // BUG
    __syncthreads();
    out[threadIdx.x] = behind[15 - threadIdx.x] + word[threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(16);
    spell<<<1, 16>>>(bad ? 16 : 15, out);
    FINISH();
    print_digest("out", out, 16);
    CHECK(cudaFree(out));
}
