// bug: the last thread reads the element behind the buffer
// expect: rule=global-out-of-bounds-read function=shift_left size=1200
#include "case.h"

__global__ void shift_left(const int *in, int *out, int n, int last) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int j = i + 1 < last ? i + 1 : last - 1;
        out[i] = in[j];  // BUG
    }
}

int main() {
    const int n = 300;
    int *in = upload(counting<int>(n));
    int *out = zeroed<int>(n);
    shift_left<<<(n + 127) / 128, 128>>>(in, out, n, n + bad);
    FINISH();
    print_digest("out", out, n - 1);
}
