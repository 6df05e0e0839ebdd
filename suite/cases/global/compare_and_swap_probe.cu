// bug: threads probe a hash table past its end, where none of them finds a place
// expect: rule=global-out-of-bounds-atomic function=insert size=512
#include "case.h"

__global__ void insert(unsigned long long *table, unsigned slots, bool wraps) {
    unsigned slot = threadIdx.x;
    while (atomicCAS(&table[slot], 0ull, threadIdx.x + 1ull) != 0)  // BUG
        slot = wraps && slot + 1 == slots ? 0 : slot + 1;
}

int main() {
    const unsigned slots = 64;
    unsigned long long *table = zeroed<unsigned long long>(slots);
    unsigned long long taken[8] = {100, 100, 100, 100, 100, 100, 100, 100};
    CHECK(cudaMemcpy(table + slots - 8, taken, sizeof taken, cudaMemcpyHostToDevice));
    insert<<<1, 56>>>(table, slots, true);
    insert<<<1, 1>>>(zeroed<unsigned long long>(slots), slots, true);
    CHECK(cudaMemset(table, 0, 8 * 8));
    CHECK(cudaDeviceSynchronize());
    if (bad)
        insert<<<1, 64>>>(table, slots, false);
    FINISH();
    print_digest("table", table, slots);
}
