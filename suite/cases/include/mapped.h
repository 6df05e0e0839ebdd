// For cases that map memory into reserved addresses chunk by chunk, as
// allocators do that let their buffers grow.
#pragma once
#include "driver.h"

struct Mapped {
    CUdeviceptr base = 0;
    size_t size = 0;  // of a chunk
    std::vector<CUmemGenericAllocationHandle> handles;
    CUmemAllocationProp properties = {};

    explicit Mapped(int chunks) : handles(chunks) {
        CHECK(cudaFree(nullptr));
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CHECK_DRIVER(DRIVER(cuMemGetAllocationGranularity)(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        CHECK_DRIVER(DRIVER(cuMemAddressReserve)(&base, chunks * size, 0, 0, 0));
    }

    void map(int chunk) {
        CUmemAccessDesc access = {};
        access.location = properties.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECK_DRIVER(DRIVER(cuMemCreate)(&handles[chunk], size, &properties, 0));
        CHECK_DRIVER(DRIVER(cuMemMap)(base + chunk * size, size, 0, handles[chunk], 0));
        CHECK_DRIVER(DRIVER(cuMemSetAccess)(base + chunk * size, size, &access, 1));
    }

    void unmap(int chunk) {
        CHECK_DRIVER(DRIVER(cuMemUnmap)(base + chunk * size, size));
        CHECK_DRIVER(DRIVER(cuMemRelease)(handles[chunk]));
    }

    ~Mapped() { CHECK_DRIVER(DRIVER(cuMemAddressFree)(base, handles.size() * size)); }
};
