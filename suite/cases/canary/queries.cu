// bug: a kernel writes as many bytes as the driver says that a buffer has, and one more
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z4fillPhm argument=0 at=0 size=777
#include "case.h"
#include <cuda.h>

__global__ void fill(unsigned char *out, size_t n) {  // BUG
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) out[i] = 2;
}

// The driver's own functions, without linking its library.
template <typename F>
F *driver(const char *name) {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
    return reinterpret_cast<F *>(function);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const size_t n = 777;
    unsigned char *out = zeroed<unsigned char>(n);
    CUdeviceptr at = (CUdeviceptr)(out + 100), base = 0, start = 0;
    size_t size = 0, range = 0;
    auto where = driver<CUresult(CUdeviceptr *, size_t *, CUdeviceptr)>("cuMemGetAddressRange");
    auto one = driver<CUresult(void *, CUpointer_attribute, CUdeviceptr)>("cuPointerGetAttribute");
    auto several = driver<CUresult(unsigned, CUpointer_attribute *, void **, CUdeviceptr)>("cuPointerGetAttributes");
    if (where(&base, &size, at)) return 2;
    if (one(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at)) return 3;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    CUdeviceptr again = 0;
    void *answers[] = {&range, &again};
    if (several(2, attributes, answers, at)) return 4;
    fill<<<1, 128>>>(out, size + bad);
    FINISH();
    const int same = base == (CUdeviceptr)out && start == base && again == base;
    std::printf("base %d, %zu and %zu bytes\n", same, size, range);
    print_digest("out", out, n);
    CHECK(cudaFree(out));
}
