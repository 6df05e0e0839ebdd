// bug: of two functions that are called through one pointer, the one of this file writes past a local array
// build: rdc parts/rdc_signatures_there.cu
// expect: rule=local-out-of-bounds-write function=pairs_here size=64
#include "case.h"
#include "parts/signatures.h"

__device__ int mixed_here(char c, short s, Odd odd, float f, double d, Wide wide, int *p) {
    return c + s + odd.bytes[9] + odd.last[0] + int(f) + int(d) + int(wide.values[2]) + *wide.place + *p;
}
__device__ Pair pairs_here(int *p, long long n) {
    p[n] = 9;  // BUG
    return {p + 1, p};
}
__device__ Wide wides_here(Wide wide, const int *p, unsigned char c) {
    wide.values[0] = p[1] - c;
    wide.place -= 1;
    return wide;
}
__device__ bool tests_here(const int *p) { return p[0] & 1; }
__device__ double numbers_here() { return 2.25; }

__device__ Calls here = {mixed_here, pairs_here, wides_here, tests_here, numbers_here};
extern __device__ Calls there;

__global__ void call(int *out, int n) {
    __shared__ int shared[32];
    int local[16];
    for (int i = 0; i < 16; i++) local[i] = i * i + threadIdx.x;
    shared[threadIdx.x] = 3 * threadIdx.x;
    __syncthreads();
    const Calls &calls = threadIdx.x % 3 ? there : here;
    Odd odd;
    for (int i = 0; i < 10; i++) odd.bytes[i] = char(i - threadIdx.x);
    odd.last[0] = short(threadIdx.x * 100);
    Wide wide = {{1.5, 2.5 * threadIdx.x, 100}, local + 4};
    int sum = calls.mixed(char(-7), short(-300), odd, 1.25f, -2.5, wide, shared);
    const Pair pair = calls.pairs(local, n);
    sum += pair.first[-1] * 17 + pair.second[0] * 19;
    wide = calls.wides(wide, shared + 1, 200);
    sum += int(wide.values[0] * 23 + wide.values[1] * 29 + wide.values[2]) + *wide.place;
    sum += calls.tests(local + 2) + calls.tests(shared) * 2 + int(calls.numbers() * 8);
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    call<<<1, 32>>>(out, bad ? 16 : 15);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(out));
}
