// bug: a function returns its own array, and another function reads it
// expect: rule=use-after-scope function=sum
#include "case.h"

__device__ __noinline__ const int *digits(const int *kept, int value, int own) {
    int made[8];
    for (int i = 0; i < 8; i++) made[i] = (value >> (4 * i)) & 15;
    return own ? made : kept + made[0] % 4;
}

__device__ __noinline__ int sum(const int *values, int value, int own) {
    return *digits(values, value, own);  // BUG
}

__global__ void sums(const int *kept, int *out, int own) {
    out[threadIdx.x] = sum(kept, threadIdx.x * 40503, own);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *kept = upload(std::vector<int>(4, 9));
    int *out = zeroed<int>(32);
    sums<<<1, 32>>>(kept, out, bad);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(kept));
    CHECK(cudaFree(out));
}
