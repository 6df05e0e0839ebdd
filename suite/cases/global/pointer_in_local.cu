// bug: pointers in a local array, selected by a run-time index
// expect: rule=global-out-of-bounds-read function=rotate size=120
#include "case.h"

__global__ void rotate(const int *a, const int *b, const int *c, int *out, int n, int turn) {
    const int *sources[3] = {a, b, c};
    int i = threadIdx.x;
    if (i < n)
        out[i] = sources[(i + turn) % 3][i];  // BUG
}

int main() {
    const int n = 32;
    int *a = upload(counting<int>(n));
    int *b = upload(counting<int>(n));
    int *c = upload(counting<int>(30));
    int *out = zeroed<int>(n);
    // Threads 30 and 31 take a and b; one turn further, thread 31 takes c.
    rotate<<<1, 32>>>(a, b, c, out, n, bad);
    FINISH();
    print_digest("out", out, 30);
}
