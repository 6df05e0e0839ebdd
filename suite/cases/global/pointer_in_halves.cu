// bug: a pointer that came in two halves of 32 bits is indexed past its buffer's end
// expect: rule=global-out-of-bounds-write function=store size=400
#include "case.h"
#include <cstdint>

__global__ void store(uint32_t low, uint32_t high, long long index) {
    int *buffer = reinterpret_cast<int *>(static_cast<uint64_t>(high) << 32 | low);
    buffer[index] = 7;  // BUG
}

int main() {
    int *buffer = zeroed<int>(100);
    const uint64_t word = reinterpret_cast<uint64_t>(buffer);
    store<<<1, 1>>>(static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32),
                    bad ? 100 : 99);
    FINISH();
    print_digest("buffer", buffer, 100);
}
