// bug: a copy to the address of a device variable is longer than the variable
// expect: rule=copy-out-of-bounds-write call=cuMemcpyHtoD size=64
#include "copies.h"

__device__ int table[16];
__device__ int behind[16];

__global__ void read_tables(int *out) { out[threadIdx.x] = table[threadIdx.x] + behind[threadIdx.x]; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host = counting<int>(20);
    void *address = nullptr;
    CHECK(cudaGetSymbolAddress(&address, table));
    TRY(cudaMemcpy(address, host.data(), (16 + 4 * bad) * sizeof(int), cudaMemcpyHostToDevice));  // BUG
    int *out = zeroed<int>(16);
    read_tables<<<1, 16>>>(out);
    use(out, 16);
    CHECK(cudaFree(out));
}
