// bug: a pointer in the upper bits of a word is indexed one past its buffer's end
// expect: rule=global-out-of-bounds-write function=store size=64
#include "case.h"
#include <cstdint>

// Both are words of 64 bits: nothing but the execution tells which of them
// holds the pointer.
__global__ void store(uint64_t word, long long index) {
    char *buffer = reinterpret_cast<char *>(word >> 8);
    buffer[index] = static_cast<char>(word);  // BUG
}

int main() {
    char *buffer = zeroed<char>(64);
    const uint64_t word = reinterpret_cast<uint64_t>(buffer) << 8 | 7;
    store<<<1, 1>>>(word, bad ? 64 : 63);
    FINISH();
    print_digest("buffer", buffer, 64);
}
