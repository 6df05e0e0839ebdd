// bug: a function that is not inlined prints the last bytes of a buffer, which have no terminator
// expect: rule=global-out-of-bounds-read function=tail size=16
#include "case.h"

__device__ __noinline__ int tail(const char *text, int from) {
    return printf("%d: %s\n", from, text + from);  // BUG
}

__global__ void tails(const char *text, int *out) {
    __shared__ char own[8];
    if (threadIdx.x == 0)
        for (int i = 0; i < 8; i++) own[i] = i < 7 ? '0' + i : 0;
    __syncthreads();
    const char *whole = threadIdx.x == 1 ? own : text;
    out[threadIdx.x] = tail(whole, 4 + threadIdx.x);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<char> text(16, 'z');
    if (!bad) text[15] = 0;
    char *device = upload(text);
    int *out = zeroed<int>(3);
    tails<<<1, 3>>>(device, out);
    FINISH();
    print_digest("out", out, 3);
    CHECK(cudaFree(device));
    CHECK(cudaFree(out));
}
