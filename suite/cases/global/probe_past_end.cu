// bug: a hash table that is full is probed past its end, for a free slot
// expect: rule=global-out-of-bounds-read function=insert size=1024
#include "case.h"

const int FREE = -1;

// (A read that fails its check gets zero, which is no free slot: the loop would not
// end.)
__global__ void insert(const int *keys, int n, const int *table, int *slots) {
    int key = keys[threadIdx.x];
    size_t slot = key * 7 % n;
    while (table[slot] != FREE && table[slot] != key)  // BUG
        slot++;
    slots[threadIdx.x] = int(slot);
}

int main() {
    const int n = 256, threads = 64;
    std::vector<int> table(n, FREE), keys(threads);
    for (int i = 0; i < n - 1 + bad; i++)
        table[i] = 1000 + i;
    for (int i = 0; i < threads; i++)
        keys[i] = i;
    int *on_device = upload(table);
    int *slots = zeroed<int>(threads);
    insert<<<1, threads>>>(upload(keys), n, on_device, slots);
    FINISH();
    if (!bad)
        print_digest("slots", slots, threads);
}
