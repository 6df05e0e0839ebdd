// bug: a pointer goes through integer arithmetic to be aligned, upwards past the end
// expect: rule=global-out-of-bounds-write function=aligned_store size=100
#include "case.h"
#include <cstdint>

__global__ void aligned_store(char *buffer, int offset) {
    uintptr_t address = reinterpret_cast<uintptr_t>(buffer) + offset;
    address = (address + 15) & ~static_cast<uintptr_t>(15);
    *reinterpret_cast<int *>(address) = 0x01020304;  // BUG
}

int main() {
    char *buffer = zeroed<char>(100);
    // Aligned: 96 is the last legal place, 112 is behind the end.
    aligned_store<<<1, 1>>>(buffer, bad ? 97 : 96);
    FINISH();
    print_digest("buffer", buffer, 100);
}
