// bug: an optional output is null, and the kernel does not ask
// expect: rule=invalid-pointer function=split
#include "case.h"

__global__ void split(const int *in, int *even, int *odd, int n, int has_odd) {
    int i = threadIdx.x;
    if (i >= n) return;
    if (i % 2 == 0) even[i / 2] = in[i];
    if (i % 2 == 1 && has_odd)
        odd[i / 2] = in[i];  // BUG
}

int main() {
    const int n = 64;
    int *in = upload(counting<int>(n));
    int *even = zeroed<int>(n / 2);
    split<<<1, 64>>>(in, even, nullptr, n, bad);
    FINISH();
    print_digest("even", even, n / 2);
}
