// bug: the address of a __device__ array goes in as an ordinary pointer
// expect: rule=global-out-of-bounds-write function=fill size=48
#include "case.h"

__device__ int scratch[12];

__global__ void fill(int *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] = 7 * i;  // BUG
}

int main() {
    void *address = nullptr;
    CHECK(cudaGetSymbolAddress(&address, scratch));
    fill<<<1, 32>>>(static_cast<int *>(address), 12 + bad);
    FINISH();
    print_digest("scratch", static_cast<int *>(address), 12);
}
