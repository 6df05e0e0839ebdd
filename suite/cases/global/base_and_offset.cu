// bug: an address that is the sum of two words is indexed far past its buffer's end
// expect: rule=invalid-pointer function=store
#include "case.h"
#include <cstdint>

// Neither of the two words points to anything.
__global__ void store(uint64_t base, uint64_t offset, int index) {
    reinterpret_cast<int *>(base + offset)[index] = 3;  // BUG
}

int main() {
    int *buffer = zeroed<int>(16);
    const uint64_t offset = 0x100000;
    store<<<1, 1>>>(reinterpret_cast<uint64_t>(buffer) - offset, offset, bad ? 1 << 28 : 15);
    FINISH();
    print_digest("buffer", buffer, 16);
}
