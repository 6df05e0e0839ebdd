// bug: an uninitialised index sends a write a terabyte away
// expect: rule=global-out-of-bounds-write function=scatter size=256
#include "case.h"

__global__ void scatter(int *out, const long long *where, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[where[i]] = i;  // BUG
}

int main() {
    const int n = 64;
    std::vector<long long> where = counting<long long>(n);
    if (bad) where[17] = 1ll << 38;
    long long *device_where = upload(where);
    int *out = zeroed<int>(n);
    scatter<<<1, 64>>>(out, device_where, n);
    FINISH();
    print_digest("out", out, 17);
}
