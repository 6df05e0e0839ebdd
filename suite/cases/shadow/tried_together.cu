// bug: of three loads that are made together, one is behind its buffer; others are in the buffer of another pointer
// run: protect=shadow prove=off
// expect: rule=global-out-of-bounds-read function=gather size=1024
#include "case.h"

// Some distances lead from `a` to `b`: shadow memory judges the address, not the pointer.
__global__ void gather(const int *a, const int *b, const int *c, const long *where, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int first = a[where[i]], second = b[i], third = c[n - 1 - i];  // BUG
    out[i] = first + 3 * second - third;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 256;
    int *a = upload(counting<int>(n)), *b = upload(counting<int>(n)), *c = upload(counting<int>(n));
    std::vector<long> where(n);
    for (int i = 0; i < n; i++) where[i] = i % 3 ? i : b - a + i;
    if (bad) where[100] = n;
    long *places = upload(where);
    int *out = zeroed<int>(n);
    gather<<<2, 128>>>(a, b, c, places, out, n);
    FINISH();
    if (!bad) print_digest("out", out, n);
}
