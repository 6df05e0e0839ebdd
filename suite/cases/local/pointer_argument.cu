// bug: a function that is not inlined overruns the local array of its caller
// expect: rule=local-out-of-bounds-write function=fill_digits size=40
#include "case.h"

__device__ __noinline__ int fill_digits(int *digits, unsigned value) {
    int count = 0;
    do {
        digits[count++] = value % 10;  // BUG
        value /= 10;
    } while (value);
    return count;
}

__global__ void digit_sums(const unsigned *in, int *out) {
    int digits[10];
    for (int i = 0; i < 10; i++) digits[i] = 0;
    int weights[10];
    for (int i = 0; i < 10; i++) weights[i] = i + out[threadIdx.x];
    int count = fill_digits(digits + (in[threadIdx.x] > 4000000000u), in[threadIdx.x]);
    int sum = 0;
    for (int i = 0; i < count && i < 10; i++) sum += digits[i] * weights[i];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<unsigned> host(32);
    for (unsigned i = 0; i < 32; i++) host[i] = i * 123456789u % 3999999999u;
    host[5] = bad ? 4294967295u : 3999999999u;
    unsigned *in = upload(host);
    int *out = zeroed<int>(32);
    digit_sums<<<1, 32>>>(in, out);
    FINISH();
    print_digest("out", out, 5);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
