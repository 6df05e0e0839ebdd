// bug: buffers are swapped each round, and the wrong one is the longer
// expect: rule=global-out-of-bounds-write function=ping_pong size=508
#include "case.h"

__global__ void ping_pong(int *from, int *to, int n, int rounds) {
    int i = threadIdx.x;
    for (int r = 0; r < rounds; r++) {
        if (i < n)
            to[i] = r + i;  // BUG
        __syncthreads();
        int *swap = from;
        from = to;
        to = swap;
    }
}

int main() {
    const int n = 128;
    int *from = zeroed<int>(n - bad);
    int *to = zeroed<int>(n);
    // One round writes only `to`; the second, after the swap, writes `from`.
    ping_pong<<<1, n>>>(from, to, n, 2);
    FINISH();
    print_digest("from", from, n - 1);
    print_digest("to", to, n);
}
