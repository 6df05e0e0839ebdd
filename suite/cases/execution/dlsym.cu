// bug: the driver is opened by the program itself, and its memory is written past the end
// expect: rule=global-out-of-bounds-write function=fill size=1004
#include "case.h"
#include <cuda.h>
#include <dlfcn.h>

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = 4 * i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    CHECK(cudaFree(nullptr));
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 1;
    auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr *, size_t)>(dlsym(library, "cuMemAlloc_v2"));
    auto release = reinterpret_cast<CUresult (*)(CUdeviceptr)>(dlsym(library, "cuMemFree_v2"));
    CUdeviceptr data = 0;
    if (!allocate || !release || allocate(&data, 1004) != CUDA_SUCCESS) return 1;
    fill<<<1, 256>>>(reinterpret_cast<int *>(data), 251 + bad);
    FINISH();
    print_digest("data", reinterpret_cast<int *>(data), 251);
    if (release(data) != CUDA_SUCCESS) return 1;
}
