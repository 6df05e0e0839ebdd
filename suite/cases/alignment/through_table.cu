// bug: one of the pointers in a table points into the middle of an element
// expect: rule=misaligned-access function=gather size=512
#include "case.h"

__global__ void gather(short *const *table, int *out) {
    out[threadIdx.x] = table[threadIdx.x / 16][threadIdx.x % 16];  // BUG
}

int main(int argc, char **argv) {
    char *pool = upload(counting<char>(512));
    std::vector<short *> starts;
    for (int i = 0; i < 4; ++i) starts.push_back(reinterpret_cast<short *>(pool + 64 * i + (i == 2 && is_bad(argc, argv))));
    short **table = upload(starts);
    int *out = zeroed<int>(64);
    gather<<<1, 64>>>(table, out);
    FINISH();
    print_digest("out", out, 64);
}
