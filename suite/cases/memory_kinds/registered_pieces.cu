// bug: a block of the host is registered in pieces, and the kernel goes past the last one
// expect: rule=global-out-of-bounds-write function=fill size=16384
#include "case.h"

__global__ void fill(int *data, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = i ^ 5;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const size_t piece = 8192, n = 2 * piece / sizeof(int);
    char *block = static_cast<char *>(std::aligned_alloc(4096, 3 * piece));
    std::memset(block, 0, 3 * piece);
    // The second one first; the third is left out.
    CHECK(cudaHostRegister(block + piece, piece, cudaHostRegisterDefault));
    CHECK(cudaHostRegister(block, piece, cudaHostRegisterDefault));
    fill<<<1, 128>>>(reinterpret_cast<int *>(block), n + bad);
    FINISH();
    print_digest("first", reinterpret_cast<int *>(block), n / 2);
    print_digest("second", reinterpret_cast<int *>(block + piece), n / 2);
    CHECK(cudaHostUnregister(block + piece));
    fill<<<1, 128>>>(reinterpret_cast<int *>(block), n / 2);
    FINISH();
    CHECK(cudaHostUnregister(block));
    std::free(block);
}
