// bug: the access is in a function that is called through a pointer
// expect: rule=global-out-of-bounds-read function=take_next size=200
#include "case.h"

typedef int (*Fetch)(const int *, int);

__device__ __noinline__ int take_same(const int *in, int i) { return in[i]; }
__device__ __noinline__ int take_next(const int *in, int i) {
    return in[i + 1];  // BUG
}
__device__ Fetch fetches[2] = {take_same, take_next};

__global__ void apply(const int *in, int *out, int n, int which) {
    int i = threadIdx.x;
    if (i < n) out[i] = fetches[which](in, i);
}

int main() {
    const int n = 50;
    int *in = upload(counting<int>(n));
    int *out = zeroed<int>(n);
    apply<<<1, 64>>>(in, out, n, 0);
    apply<<<1, 64>>>(in, out, n - 1 + bad, 1);
    FINISH();
    print_digest("out", out, n - 1);
}
