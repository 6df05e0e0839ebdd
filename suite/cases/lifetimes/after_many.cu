// bug: a stale pointer is used after hundreds of other allocations have come and gone
// expect: rule=use-after-free function=store size=512
#include "case.h"

__global__ void store(int *data, int value) { data[threadIdx.x] = value; }  // BUG

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *old = zeroed<int>(128);
    if (bad) CHECK(cudaFree(old));
    for (int round = 0; round < 40; round++) {
        std::vector<int *> some;
        for (int k = 0; k < 8; k++) some.push_back(zeroed<int>(128));
        store<<<1, 128>>>(some[round % 8], round);
        FINISH();
        for (int *one : some) CHECK(cudaFree(one));
    }
    int *last = zeroed<int>(128);
    store<<<1, 128>>>(old, 7);
    FINISH();
    print_digest("last", last, 128);
    CHECK(cudaFree(last));
    if (!bad) CHECK(cudaFree(old));
}
