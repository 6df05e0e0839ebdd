// bug: a hash table probes past its last slot instead of wrapping around
// expect: rule=global-out-of-bounds-atomic function=insert size=512
#include "case.h"

__global__ void insert(unsigned long long *slots, int capacity, const unsigned *keys, int n,
                       int limit) {
    int i = threadIdx.x;
    if (i >= n) return;
    unsigned long long key = keys[i] + 1ull;
    int slot = static_cast<int>(keys[i] % capacity);
    for (int probe = 0; probe < capacity; probe++) {
        unsigned long long seen = atomicCAS(&slots[slot], 0ull, key);  // BUG
        if (seen == 0 || seen == key) return;
        slot = slot + 1 == limit ? 0 : slot + 1;
    }
}

int main() {
    const int capacity = 64;
    // Both keys hash to the last slot, so the second must wrap.
    std::vector<unsigned> keys = {63, 127};
    unsigned long long *slots = zeroed<unsigned long long>(capacity);
    insert<<<1, 32>>>(slots, capacity, upload(keys), 1, capacity);
    insert<<<1, 32>>>(slots, capacity, upload(keys), 2, capacity + bad);
    FINISH();
    print_digest("slots", slots + 1, capacity - 1);
}
