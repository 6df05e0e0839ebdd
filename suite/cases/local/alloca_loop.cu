// bug: alloca of a size that depends on the data, and a loop that runs to the next multiple of four
// expect: rule=local-out-of-bounds-write function=pad size=40
#include "case.h"

__global__ void pad(const int *in, int *out, int n, int limit) {
    int *copy = static_cast<int *>(alloca(n * sizeof(int)));
    for (int i = 0; i < limit; i++)
        copy[i] = i < n ? in[i] : 0;  // BUG
    int sum = 0;
    for (int i = 0; i < n; i++) sum += copy[n - 1 - i] * (i + 1);
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(16));
    int *out = zeroed<int>(32);
    pad<<<1, 32>>>(in, out, 10, bad ? 12 : 10);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
