// bug: memory from cuMemMap is written past the end of its mapping, into the next one
// expect: rule=global-out-of-bounds-write function=fill
#include "driver.h"

__global__ void fill(int *data, long long n) {
    for (long long i = threadIdx.x; i < n; i += 4096) data[i] = 1;
    if (threadIdx.x == 0) data[n - 1] = 2;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    CHECK(cudaFree(nullptr));
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t size = 0;
    CHECK_DRIVER(DRIVER(cuMemGetAllocationGranularity)(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUdeviceptr base = 0;
    CHECK_DRIVER(DRIVER(cuMemAddressReserve)(&base, 2 * size, 0, 0, 0));
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemGenericAllocationHandle handles[2];
    for (int k = 0; k < 2; k++) {
        CHECK_DRIVER(DRIVER(cuMemCreate)(&handles[k], size, &properties, 0));
        CHECK_DRIVER(DRIVER(cuMemMap)(base + k * size, size, 0, handles[k], 0));
        CHECK_DRIVER(DRIVER(cuMemSetAccess)(base + k * size, size, &access, 1));
    }
    // The first mapping alone is the buffer.
    fill<<<1, 128>>>(reinterpret_cast<int *>(base), size / sizeof(int) + bad);
    FINISH();
    print_digest("first", reinterpret_cast<int *>(base) + 4096, 4096);
    for (int k = 0; k < 2; k++) {
        CHECK_DRIVER(DRIVER(cuMemUnmap)(base + k * size, size));
        CHECK_DRIVER(DRIVER(cuMemRelease)(handles[k]));
    }
    CHECK_DRIVER(DRIVER(cuMemAddressFree)(base, 2 * size));
}
