// bug: a walk from the end pointer down does not stop at the first element
// expect: rule=global-out-of-bounds-write function=countdown size=800
#include "case.h"

__global__ void countdown(long long *end, int steps) {
    long long *p = end;  // one past the end, legal to hold
    for (int k = 0; k < steps; k++)
        *--p = k;  // BUG
}

int main() {
    const int n = 100;
    long long *data = zeroed<long long>(n);
    countdown<<<1, 1>>>(data + n, n + bad);
    FINISH();
    print_digest("data", data, n);
}
