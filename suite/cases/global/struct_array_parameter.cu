// bug: one of several pointers in a parameter struct's array has a shorter buffer
// expect: rule=global-out-of-bounds-read function=interleave size=252
#include "case.h"

struct Channels {
    const int *channel[3];
    int length;
};

__global__ void interleave(Channels c, int *out) {
    int i = threadIdx.x;
    if (i < c.length) {
        out[i * 3 + 0] = c.channel[0][i];
        out[i * 3 + 1] = c.channel[1][i];
        out[i * 3 + 2] = c.channel[2][i];  // BUG
    }
}

int main() {
    const int n = 64;
    Channels c;
    c.channel[0] = upload(counting<int>(n));
    c.channel[1] = upload(counting<int>(n));
    c.channel[2] = upload(counting<int>(n - bad));
    c.length = n;
    int *out = zeroed<int>(n * 3);
    interleave<<<1, 64>>>(c, out);
    FINISH();
    print_digest("out", out, n * 3 - 3);
}
