// bug: a copy from a variable and a set of one reach the variable behind it
// expect: rule=copy-out-of-bounds-read call=cuMemcpy size=64
// expect: rule=copy-out-of-bounds-write call=cuMemset size=64
#include "copies.h"

__device__ int table[16] = {1, 2, 3};
__device__ int behind[16] = {4, 5, 6};

__global__ void read_tables(int *out) { out[threadIdx.x] = table[threadIdx.x] + behind[threadIdx.x]; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host(20);
    void *address = nullptr;
    CHECK(cudaGetSymbolAddress(&address, table));
    TRY(cudaMemcpy(host.data(), (int *)address + 8, (8 + bad) * sizeof(int), cudaMemcpyDeviceToHost));  // BUG
    TRY(cudaMemset(address, 0, (16 + bad) * sizeof(int)));  // BUG
    int *out = zeroed<int>(16);
    read_tables<<<1, 16>>>(out);
    FINISH();
    if (!bad) print_digest("out", out, 16);
    CHECK(cudaFree(out));
}
