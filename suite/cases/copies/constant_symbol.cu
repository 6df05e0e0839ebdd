// bug: a copy to a constant is longer than the constant, and reaches the next one
// expect: rule=copy-out-of-bounds-write call=cuMemcpy size=64
#include "copies.h"

__constant__ int table[16];
__constant__ int behind[16];

__global__ void read_tables(int *out) { out[threadIdx.x] = table[threadIdx.x] + behind[threadIdx.x]; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host = counting<int>(20);
    void *address = nullptr;
    CHECK(cudaGetSymbolAddress(&address, table));
    TRY(cudaMemcpy(address, host.data(), (16 + 4 * bad) * sizeof(int), cudaMemcpyHostToDevice));  // BUG
    CHECK(cudaMemcpyToSymbol(behind, host.data(), sizeof behind));
    int *out = zeroed<int>(16);
    read_tables<<<1, 16>>>(out);
    FINISH();
    if (!bad) print_digest("out", out, 16);
    CHECK(cudaFree(out));
}
