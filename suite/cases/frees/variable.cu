// bug: the address of a device variable is freed
// expect: rule=invalid-free call=cuMemFree size=64
#include "frees.h"

__device__ int table[16];

__global__ void fill_table() { table[threadIdx.x] = threadIdx.x; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    fill_table<<<1, 16>>>();
    FINISH();
    void *address = nullptr;
    CHECK(cudaGetSymbolAddress(&address, table));
    if (bad) TRY(cudaFree(address));  // BUG
    CHECK(cudaFree(data));
}
