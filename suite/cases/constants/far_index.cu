// bug: an index into a constant table is off by so much that the address wraps at 4 GiB
// expect: rule=constant-out-of-bounds-read function=lookup size=64
// expect: rule=parameter-out-of-bounds-read function=pick
#include "case.h"

__constant__ double table[8];

__global__ void lookup(double *out, long long index) {
    out[0] = table[index];  // BUG
}

struct Values {
    double value[8];
};

__global__ void pick(const __grid_constant__ Values values, double *out, long long index) {
    out[1] = values.value[index];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const std::vector<double> eight = counting<double>(8);
    CHECK(cudaMemcpyToSymbol(table, eight.data(), 64));
    Values values;
    std::memcpy(&values, eight.data(), sizeof values);
    double *out = zeroed<double>(2);
    const long long index = bad ? (1ll << 29) + 3 : 3;
    lookup<<<1, 1>>>(out, index);
    pick<<<1, 1>>>(values, out, index);
    FINISH();
    if (!bad) print_digest("out", out, 2);
    CHECK(cudaFree(out));
}
