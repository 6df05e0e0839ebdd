// bug: a kernel uses addresses whose memory was unmapped
// expect: rule=use-after-free function=fill
#include "driver.h"

__global__ void fill(int *data, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = i;  // BUG
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
    CUmemGenericAllocationHandle handle;
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_DRIVER(DRIVER(cuMemAddressReserve)(&base, size, 0, 0, 0));
    CHECK_DRIVER(DRIVER(cuMemCreate)(&handle, size, &properties, 0));
    CHECK_DRIVER(DRIVER(cuMemMap)(base, size, 0, handle, 0));
    CHECK_DRIVER(DRIVER(cuMemSetAccess)(base, size, &access, 1));
    int *data = reinterpret_cast<int *>(base);
    fill<<<1, 128>>>(data, 1000);
    FINISH();
    print_digest("data", data, 1000);
    if (bad) CHECK_DRIVER(DRIVER(cuMemUnmap)(base, size));
    fill<<<1, 128>>>(data, 1000);
    FINISH();
    if (!bad) CHECK_DRIVER(DRIVER(cuMemUnmap)(base, size));
    CHECK_DRIVER(DRIVER(cuMemRelease)(handle));
    CHECK_DRIVER(DRIVER(cuMemAddressFree)(base, size));
}
