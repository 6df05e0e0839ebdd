// bug: a packed table in constant memory is read as int from an odd place on
// expect: rule=misaligned-access function=look_up size=256
#include "case.h"

__constant__ __align__(16) char table[256];

__global__ void look_up(int *out, int start) {
    out[threadIdx.x] = *reinterpret_cast<const int *>(table + start + 4 * threadIdx.x);  // BUG
}

int main(int argc, char **argv) {
    std::vector<char> bytes = counting<char>(256);
    CHECK(cudaMemcpyToSymbol(table, bytes.data(), 256));
    int *out = zeroed<int>(32);
    look_up<<<1, 32>>>(out, is_bad(argc, argv) ? 6 : 8);
    FINISH();
    print_digest("out", out, 32);
}
