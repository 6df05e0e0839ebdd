// bug: of tagged pointers in memory, one is indexed past its buffer's end
// expect: rule=global-out-of-bounds-write function=scatter size=128
#include "case.h"
#include <cstdint>

__global__ void scatter(const uint64_t *tagged, const long long *index) {
    const uint64_t word = tagged[threadIdx.x];
    int *row = reinterpret_cast<int *>(word & 0x0000ffffffffffff);
    row[index[threadIdx.x]] = static_cast<int>(word >> 48);  // BUG
}

int main() {
    int *rows[2] = {zeroed<int>(16), zeroed<int>(32)};
    std::vector<uint64_t> tagged;
    for (uint64_t t = 0; t < 2; t++)
        tagged.push_back(reinterpret_cast<uint64_t>(rows[t]) | (t + 5) << 48);
    const std::vector<long long> index = {15, bad ? 32 : 31};
    uint64_t *words = upload(tagged);
    scatter<<<1, 2>>>(words, upload(index));
    FINISH();
    print_digest("first", rows[0], 16);
    print_digest("second", rows[1], 32);
}
