// bug: 2^32 too much in a 64-bit index, invisible to 32-bit arithmetic
// expect: rule=global-out-of-bounds-read function=fetch size=8192
#include "case.h"

__global__ void fetch(const unsigned char *in, const unsigned long long *offsets, int *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] = in[offsets[i]];  // BUG
}

int main() {
    const int n = 32;
    std::vector<unsigned long long> offsets(n);
    for (int i = 0; i < n; i++) offsets[i] = 8191ull - i;
    offsets[7] += static_cast<unsigned long long>(bad) << 32;
    unsigned char *in = upload(counting<unsigned char>(8192));
    int *out = zeroed<int>(n);
    fetch<<<1, 32>>>(in, upload(offsets), out, n);
    FINISH();
    print_digest("out", out, 7);
}
