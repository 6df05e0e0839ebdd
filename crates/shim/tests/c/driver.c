/* A driver library with a handful of functions, to see what reaches it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;

CUresult cuInit(unsigned flags) { (void)flags; return getenv("FAKE_INIT") ? atoi(getenv("FAKE_INIT")) : 0; }

CUresult cuDriverGetVersion(int *version) {
    *version = getenv("FAKE_VERSION") ? atoi(getenv("FAKE_VERSION")) : 13000;
    return 0;
}

CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **params, void **extra) {
    printf("launch %p %u %u %u %u %u %u %u %p %p %p\n", f, gx, gy, gz, bx, by, bz, shared, stream, (void *)params,
           (void *)extra);
    return 7;
}

CUresult cuTexRefSetMipmapLevelBias(void *reference, float bias) {
    printf("bias %p %g\n", reference, bias);
    return 8;
}

CUresult cuMemAlloc(unsigned *pointer, unsigned bytes) { (void)bytes; *pointer = 1; return 0; }
CUresult cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    static unsigned long long next = 0x7f0000000000;
    printf("allocate %zu\n", bytes);
    *pointer = next;
    next += (bytes + 511) / 512 * 512;
    return 0;
}
CUresult cuMemFree_v2(unsigned long long pointer) { printf("free %#llx\n", pointer); return 0; }
CUresult cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long pointer) {
    if (base) *base = pointer & ~511ull;
    if (size) *size = 4096;
    return 0;
}
CUresult cuCtxGetDevice(int *device) { *device = 3; return 0; }
CUresult cuCtxGetDevice_v2(int *device, void *context) { (void)context; *device = 4; return 0; }
CUresult cuCtxSynchronize(void) { return 0; }
CUresult cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) {
    (void)to, (void)from, (void)bytes;
    return 0;
}
CUresult cuMemcpyHtoD_v2_ptds(unsigned long long to, const void *from, size_t bytes) {
    (void)to, (void)from, (void)bytes;
    return 9;
}

/* Not exported, as the real driver may do: only its resolver knows it. */
static CUresult hidden_free_async(unsigned long long pointer, void *stream) { (void)pointer, (void)stream; return 11; }
static CUresult from_the_future(void) { return 12; }

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status) {
    void *found = 0;
    if (version > 13010) return 1;
    if (!strcmp(name, "cuMemAlloc")) found = version >= 3020 ? (void *)cuMemAlloc_v2 : (void *)cuMemAlloc;
    if (!strcmp(name, "cuCtxGetDevice")) found = version >= 13000 ? (void *)cuCtxGetDevice_v2 : (void *)cuCtxGetDevice;
    if (!strcmp(name, "cuMemcpyHtoD")) found = flags & 2 ? (void *)cuMemcpyHtoD_v2_ptds : (void *)cuMemcpyHtoD_v2;
    if (!strcmp(name, "cuInit")) found = (void *)cuInit;
    if (!strcmp(name, "cuMemFreeAsync")) found = (void *)hidden_free_async;
    /* A revision that is newer than the headers. */
    if (!strcmp(name, "cuMemFree")) found = version >= 13010 ? (void *)from_the_future : (void *)cuMemFree_v2;
    if (!strcmp(name, "cuFuture")) found = (void *)from_the_future;
    *function = found;
    if (status) *status = found ? 0 : 1;
    return 0;
}
