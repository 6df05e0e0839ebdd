// What the device says of itself and of memory.
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

static void show(const char *what, cudaError_t e) { printf("%s: %s\n", what, cudaGetErrorString(e)); }

int main() {
    int count = 0, device = -1, warp = 0, major = 0, version = 0;
    show("count", cudaGetDeviceCount(&count));
    printf("devices %d\n", count);
    show("get", cudaGetDevice(&device));
    cudaDeviceProp p;
    show("properties", cudaGetDeviceProperties(&p, 0));
    cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    printf("name %d warp %d %d threads %d agree %d\n", strlen(p.name) > 0, warp, p.warpSize, p.maxThreadsPerBlock, p.major == major);
    show("properties of none", cudaGetDeviceProperties(&p, 5));
    show("attribute of none", cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 5));
    show("runtime", cudaRuntimeGetVersion(&version));
    printf("version %d\n", version / 1000);
    show("driver", cudaDriverGetVersion(&version));
    printf("at least 13: %d\n", version >= 13000);
    size_t free_bytes = 0, total = 0, limit = 0;
    show("memory", cudaMemGetInfo(&free_bytes, &total));
    printf("plausible %d\n", free_bytes > 0 && free_bytes <= total);
    show("limit", cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
    printf("fifo %d\n", limit > 0);

    char *d, *h, stack[16];
    cudaMalloc(&d, 100);
    cudaHostAlloc(&h, 100, cudaHostAllocMapped);
    cudaPointerAttributes a;
    show("device pointer", cudaPointerGetAttributes(&a, d + 50));
    printf("%d %d %d\n", a.type == cudaMemoryTypeDevice, a.device, a.devicePointer == d + 50);
    show("host pointer", cudaPointerGetAttributes(&a, h));
    printf("%d %d\n", a.type == cudaMemoryTypeHost, a.hostPointer == h);
    show("stack pointer", cudaPointerGetAttributes(&a, stack));
    printf("%d\n", a.type == cudaMemoryTypeUnregistered);
    void *mapped = nullptr;
    show("mapped", cudaHostGetDevicePointer(&mapped, h, 0));
    printf("%d\n", mapped != nullptr);
    static char registered[4096];
    show("register", cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
    cudaPointerGetAttributes(&a, registered);
    printf("%d\n", a.type == cudaMemoryTypeHost);
    show("unregister", cudaHostUnregister(registered));
    int peer = -1;
    show("peer", cudaDeviceCanAccessPeer(&peer, 0, 0));
    printf("%d\n", peer);

    void *entry = nullptr;
    cudaDriverEntryPointQueryResult result;
    show("entry point", cudaGetDriverEntryPointByVersion("cuMemGetInfo", &entry, 12000, cudaEnableDefault, &result));
    size_t again = 0;
    CUresult r = ((CUresult(*)(size_t *, size_t *))entry)(&free_bytes, &again);
    printf("%d %d %d\n", (int)r, result == cudaDriverEntryPointSuccess, again == total);
    show("no entry point", cudaGetDriverEntryPointByVersion("cuNoSuch", &entry, 12000, cudaEnableDefault, &result));
    printf("%d\n", result == cudaDriverEntryPointSymbolNotFound);
    show("free", cudaFree(d));
    show("free host", cudaFreeHost(h));
    return 0;
}
