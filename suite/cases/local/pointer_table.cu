// bug: a local array that is chosen from a table of pointers is overrun
// expect: rule=local-out-of-bounds-write function=deal
#include "case.h"

__global__ void deal(const int *in, int *out, int n, int piles) {
    int spades[8], hearts[8], clubs[8];
    for (int i = 0; i < 8; i++) spades[i] = hearts[i] = clubs[i] = 0;
    int *pile[3] = {spades, hearts, clubs};
    int height[3] = {0, 0, 0};
    for (int i = 0; i < n; i++) {
        const int which = in[i] % piles;
        pile[which][height[which]++] = in[i];  // BUG
    }
    int sum = 0;
    for (int which = 0; which < 3; which++)
        for (int i = 0; i < 8; i++) sum = sum * 7 + pile[which][i];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host(24);
    for (int i = 0; i < 24; i++) host[i] = i;
    if (bad) host[22] = 23;
    int *in = upload(host);
    int *out = zeroed<int>(32);
    deal<<<1, 32>>>(in, out, 24, 3);
    FINISH();
    if (!bad) print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
