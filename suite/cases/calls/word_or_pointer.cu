// bug: functions get pointers out of packed words, and one of them runs past its buffer's end
// expect: rule=global-out-of-bounds-write function=put size=64
#include "case.h"
#include <cstdint>

__device__ __noinline__ void put(char *place, long long index, char value) {
    place[index] = value;  // BUG
}

__device__ __noinline__ char *sum(uint64_t one, uint64_t other) {
    return reinterpret_cast<char *>(one + other);
}

// Nothing but the execution tells which words hold pointers.
__global__ void store(uint64_t word, uint64_t base, uint64_t offset, long long index) {
    put(reinterpret_cast<char *>(word >> 8) + offset, index, 1);
    put(reinterpret_cast<char *>(base + offset), index, 2);
    put(sum(base, offset), index + 1, 3);
    put(sum(offset, base), index + 2, 4);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *one = zeroed<char>(64);
    char *two = zeroed<char>(64);
    const auto first = reinterpret_cast<uint64_t>(one);
    const auto second = reinterpret_cast<uint64_t>(two);
    // The word holds the pointer, or the offset does.
    store<<<1, 1>>>(first << 8 | 7, second, 32, bad ? 32 : 29);
    store<<<1, 1>>>(16 << 8, 8, second, 16);
    FINISH();
    print_digest("one", one, 64);
    print_digest("two", two, 64);
    CHECK(cudaFree(one));
    CHECK(cudaFree(two));
}
