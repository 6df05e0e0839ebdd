// bug: a kernel reads as many bytes as the driver says that a buffer has, and one more
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z3sumPKhmPi error=700 at=0 size=1536 live
#include "failed.h"
#include "driver.h"

__global__ void sum(const unsigned char *data, size_t n, int *out) {
    int total = 0;
    for (size_t i = 0; i < n; i++) total += data[i];  // BUG
    *out = total;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const size_t n = 1536;
    unsigned char *data = zeroed<unsigned char>(n);
    int *out = zeroed<int>(1);
    const CUdeviceptr at = (CUdeviceptr)(data + 100);
    CUdeviceptr base = 0, start = 0;
    CUcontext context = nullptr, current = nullptr;
    size_t size = 0, left = 0, all = 0;
    unsigned type = 0;
    CHECK_DRIVER(DRIVER(cuMemGetAddressRange)(&base, &size, at));
    CHECK_DRIVER(DRIVER(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    CHECK_DRIVER(DRIVER(cuPointerGetAttribute)(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
    CHECK_DRIVER(DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    CHECK_DRIVER(DRIVER(cuCtxGetCurrent)(&current));
    CHECK_DRIVER(DRIVER(cuMemGetInfo)(&left, &all));
    CUmemGenericAllocationHandle handle = 0;
    const CUresult retained = DRIVER(cuMemRetainAllocationHandle)(&handle, data);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, data + 7));
    void *none = data;
    const cudaError_t empty = cudaMalloc(&none, 0), huge = cudaMalloc(&none, size_t(1) << 50);
    (void)cudaGetLastError();
    sum<<<1, 1>>>(data, size + bad, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    std::printf("base %d size %zu start %d context %d type %u of %d handle %d\n", base == (CUdeviceptr)data, size,
                start == base, context == current, type, attributes.type, retained);
    std::printf("empty %d huge %d left %d\n", empty, huge, left < all);
    print_digest("out", out, 1);
    CHECK(cudaFree(data));
    CHECK(cudaFree(out));
}
