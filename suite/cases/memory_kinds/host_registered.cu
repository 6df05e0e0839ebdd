// bug: registered host memory is written past the part that was registered
// expect: rule=global-out-of-bounds-write function=fill size=4096
#include "case.h"

__global__ void fill(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    void *pages = nullptr;
    if (posix_memalign(&pages, 4096, 8192) != 0) return 1;
    std::memset(pages, 0, 8192);
    CHECK(cudaHostRegister(pages, 4096, cudaHostRegisterMapped));
    int *data = nullptr;
    CHECK(cudaHostGetDevicePointer(&data, pages, 0));
    fill<<<9, 128>>>(data, 1024 + bad);
    FINISH();
    std::printf("pages %016llx\n", digest_bytes(pages, 4096));
    CHECK(cudaHostUnregister(pages));
    std::free(pages);
}
