// Memory that is named and cut up through NVTX. The argument picks one bug;
// without one everything ends where it should.
#include <cstdio>
#include <cstdlib>
#include <nvtx3/nvToolsExtMem.h>

__global__ void set(int *p, int n) {
    int i = threadIdx.x;
    if (i < n) p[i] = i;
}

static nvtxMemRegionHandle_t region(nvtxDomainHandle_t domain, void *pointer, size_t bytes) {
    nvtxMemVirtualRangeDesc_t range = {bytes, pointer};
    nvtxMemRegionHandle_t handle = nullptr;
    nvtxMemRegionsRegisterBatch_t batch = {};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE;
    batch.regionCount = 1;
    batch.regionDescElementSize = sizeof range;
    batch.regionDescElements = &range;
    batch.regionHandleElementsOut = &handle;
    nvtxMemRegionsRegister(domain, &batch);
    return handle;
}

static void name(nvtxDomainHandle_t domain, nvtxMemRegionNameDesc_t what, const char *text) {
    what.nameType = NVTX_MESSAGE_TYPE_ASCII;
    what.name.ascii = text;
    nvtxMemRegionsNameBatch_t batch = {};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.regionCount = 1;
    batch.regionElementSize = sizeof what;
    batch.regionElements = &what;
    nvtxMemRegionsName(domain, &batch);
}

int main(int count, char **arguments) {
    int bug = count > 1 ? atoi(arguments[1]) : 0;
    int *weights, *layers;
    cudaMalloc(&weights, 400);
    cudaMalloc(&layers, 4096);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("test");
    nvtxMemRegionNameDesc_t what = {};
    what.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    what.region.pointer = weights;
    name(domain, what, "weights");
    what.regionRefType = NVTX_MEM_REGION_REF_TYPE_HANDLE;
    what.region.handle = region(domain, layers + 64, 1024);
    name(domain, what, "bias");

    set<<<1, 512>>>(weights, bug == 1 ? 101 : 100);
    set<<<1, 512>>>(layers + 64, bug == 2 ? 257 : 256);
    cudaDeviceSynchronize();

    nvtxMemRegionsUnregisterBatch_t batch = {};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.refType = NVTX_MEM_REGION_REF_TYPE_HANDLE;
    batch.refCount = 1;
    batch.refElementSize = sizeof what.region;
    batch.refElements = &what.region;
    nvtxMemRegionsUnregister(domain, &batch);
    // The whole buffer again.
    set<<<1, 512>>>(layers + 64, 300);
    set<<<1, 512>>>(layers + 768, bug == 3 ? 257 : 256);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    // A heap that cannot be. (The header's name for "no tool" is no C++.)
    nvtxMemHeapDesc_t heap = {};
    printf("%d\n", reinterpret_cast<intptr_t>(nvtxMemHeapRegister(domain, &heap)) == -1);
}
