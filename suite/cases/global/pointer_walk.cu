// bug: a walk up to the end pointer reads the end pointer itself
// expect: rule=global-out-of-bounds-read function=walk size=1020
#include "case.h"

// The good twin forms the pointer one past the end, compares with it, and
// does not read it.
__global__ void walk(const int *begin, const int *end, int *out) {
    int sum = 0;
    for (const int *p = begin + threadIdx.x; p < end; p += blockDim.x)
        sum += *p;  // BUG
    atomicAdd(out, sum);
}

int main() {
    const int n = 255;
    int *in = upload(counting<int>(n));
    int *out = zeroed<int>(1);
    walk<<<1, 32>>>(in, in + n + bad, out);
    FINISH();
    if (!bad) print_digest("out", out, 1);
}
