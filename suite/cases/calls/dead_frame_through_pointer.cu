// bug: a virtual function returns its own array, and the caller reads it
// expect: rule=use-after-scope function=sums
#include "case.h"

struct Digits {
    __device__ virtual const int *of(const int *kept, int value) const { return kept + value % 4; }
};

struct Own : Digits {
    int own;
    __device__ Own(int o) : own(o) {}
    __device__ __noinline__ const int *of(const int *kept, int value) const override {
        int made[8];
        for (int i = 0; i < 8; i++) made[i] = (value >> (4 * i)) & 15;
        return own ? made : kept + made[0] % 4;
    }
};

__global__ void sums(const int *kept, int *out, int own) {
    Digits plain;
    Own other(own);
    Digits *digits = threadIdx.x & 1 ? &plain : &other;
    out[threadIdx.x] = *digits->of(kept, threadIdx.x * 40503);  // BUG
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
