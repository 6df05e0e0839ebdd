// A bump allocator over one buffer, which tells tools of its blocks through
// NVTX, as compute-sanitizer's manual shows it.
#pragma once
#include "case.h"
#include <nvtx3/nvToolsExtMem.h>

class NvtxPool {
  public:
    NvtxPool(bool annotated, size_t bytes) : annotated_(annotated), bytes_(bytes) {
        CHECK(cudaMalloc(&buffer_, bytes));
        CHECK(cudaMemset(buffer_, 0, bytes));
        if (!annotated_) return;
        domain_ = nvtxDomainCreateA("compute-sanitizer");
        nvtxMemVirtualRangeDesc_t range = {bytes, buffer_};
        nvtxMemHeapDesc_t heap = {};
        heap.extCompatID = NVTX_EXT_COMPATID_MEM;
        heap.structSize = sizeof heap;
        heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
        heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
        heap.typeSpecificDescSize = sizeof range;
        heap.typeSpecificDesc = &range;
        heap_ = nvtxMemHeapRegister(domain_, &heap);
    }
    ~NvtxPool() {
        if (annotated_) nvtxMemHeapUnregister(domain_, heap_);
        CHECK(cudaFree(buffer_));
    }
    NvtxPool(const NvtxPool &) = delete;
    NvtxPool &operator=(const NvtxPool &) = delete;

    void *take(size_t bytes) {
        char *block = buffer_ + used_;
        used_ += (bytes + 511) / 512 * 512;
        if (used_ > bytes_) std::exit(1);
        if (annotated_) {
            nvtxMemVirtualRangeDesc_t range = {bytes, block};
            nvtxMemRegionsRegisterBatch_t batch = {};
            batch.extCompatID = NVTX_EXT_COMPATID_MEM;
            batch.structSize = sizeof batch;
            batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
            batch.heap = heap_;
            batch.regionCount = 1;
            batch.regionDescElementSize = sizeof range;
            batch.regionDescElements = &range;
            nvtxMemRegionsRegister(domain_, &batch);
        }
        return block;
    }

    // The latest block grows or shrinks.
    void resize(void *block, size_t bytes) {
        used_ = static_cast<char *>(block) - buffer_ + (bytes + 511) / 512 * 512;
        if (!annotated_) return;
        nvtxMemVirtualRangeDesc_t range = {bytes, block};
        nvtxMemRegionsResizeBatch_t batch = {};
        batch.extCompatID = NVTX_EXT_COMPATID_MEM;
        batch.structSize = sizeof batch;
        batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
        batch.regionDescCount = 1;
        batch.regionDescElementSize = sizeof range;
        batch.regionDescElements = &range;
        nvtxMemRegionsResize(domain_, &batch);
    }

    void give(void *block) {
        if (!annotated_) return;
        nvtxMemRegionRef_t region;
        region.pointer = block;
        nvtxMemRegionsUnregisterBatch_t batch = {};
        batch.extCompatID = NVTX_EXT_COMPATID_MEM;
        batch.structSize = sizeof batch;
        batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
        batch.refCount = 1;
        batch.refElementSize = sizeof region;
        batch.refElements = &region;
        nvtxMemRegionsUnregister(domain_, &batch);
    }

    // Takes all blocks back.
    void reset() {
        used_ = 0;
        if (annotated_) nvtxMemHeapReset(domain_, heap_);
    }

  private:
    bool annotated_;
    size_t bytes_, used_ = 0;
    char *buffer_ = nullptr;
    nvtxDomainHandle_t domain_ = nullptr;
    nvtxMemHeapHandle_t heap_ = nullptr;
};
