// bug: an index that belongs to another live buffer is used with this one
// expect: rule=global-out-of-bounds-write function=poke size=1000
#include "case.h"

__global__ void poke(int *data, long long index) {
    data[index] = 42;  // BUG
}

int main() {
    int *first = zeroed<int>(250);
    int *second = zeroed<int>(500);
    // Mapped memory, but not this pointer's: in the bad twin the index leads
    // from `first` to the start of `second`.
    long long index = bad ? second - first : 249;
    poke<<<1, 1>>>(first, index);
    FINISH();
    print_digest("second", second, 500);
}
