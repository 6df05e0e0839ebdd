// bug: a corrupted index reads far before the buffer
// expect: rule=global-out-of-bounds-read function=gather size=2048
#include "case.h"

__global__ void gather(const double *in, const long long *where, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = in[where[i]];  // BUG
}

int main() {
    const int n = 256;
    std::vector<long long> where(n);
    for (int i = 0; i < n; i++) where[i] = (i * 37) % n;
    where[3] = bad ? -(1ll << 36) : n - 1;
    double *in = upload(counting<double>(n));
    long long *device_where = upload(where);
    double *out = zeroed<double>(n);
    gather<<<4, 64>>>(in, device_where, out, n);
    FINISH();
    print_digest("out", out + 4, n - 4);
}
