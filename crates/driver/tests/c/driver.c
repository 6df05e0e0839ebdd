/* A driver library with a handful of functions, to see what reaches it. It
   works on host memory and runs no kernels. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

typedef int CUresult;

CUresult cuInit(unsigned flags) { (void)flags; return getenv("FAKE_INIT") ? atoi(getenv("FAKE_INIT")) : 0; }

CUresult cuDriverGetVersion(int *version) {
    *version = getenv("FAKE_VERSION") ? atoi(getenv("FAKE_VERSION")) : 13000;
    return 0;
}

/* Modules are PTX text, functions are names in it. */
typedef struct { char *text; } Module;
typedef struct { char name[64]; } Function;

CUresult cuModuleLoadDataEx(Module **module, const void *image, unsigned count, int *options, void **values) {
    (void)options, (void)values;
    if (getenv("FAKE_REJECT") && strstr(image, "__ringfence")) return 218;
    *module = malloc(sizeof **module);
    (*module)->text = strdup(image);
    printf("load %s with %u options\n", strstr(image, "__ringfence") ? "instrumented" : "original", count);
    return 0;
}
CUresult cuModuleLoadData(Module **module, const void *image) { return cuModuleLoadDataEx(module, image, 0, 0, 0); }
CUresult cuModuleUnload(Module *module) { (void)module; return 0; }
CUresult cuModuleGetGlobal_v2(unsigned long long *base, size_t *size, Module *module, const char *name) {
    if (!strstr(module->text, name)) return 500;
    *base = 0x7e0000000000, *size = 64;
    return 0;
}
CUresult cuModuleGetFunction(Function **function, Module *module, const char *name) {
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s", name);
    if (!strstr(module->text, entry)) return 500;
    *function = calloc(1, sizeof **function);
    strncpy((*function)->name, name, sizeof (*function)->name - 1);
    return 0;
}
CUresult cuFuncSetAttribute(Function *function, int attribute, int value) {
    printf("attribute %d %d of %s\n", attribute, value, function->name);
    return 0;
}
/* The copy takes more registers, so its blocks are smaller. */
CUresult cuFuncGetAttribute(int *value, int attribute, Function *function) {
    (void)attribute;
    *value = strstr(function->name, "__ringfence") ? 512 : 1024;
    return 0;
}

/* Kernels of Ringfence's own, which it launches in two ways. */
static int plain, early, capturing, old;
int fakePlain(void) { return plain; }
int fakeEarly(void) { return early; }
int fakeBeginCapture(void) { return capturing = 1; }
int fakeEndCapture(void) { return capturing = 0; }
int fakeForgetAttributes(void) { return old = 1; }
static int is_own(void *f, void **extra) {
    return strstr(((Function *)f)->name, "own_") && extra && extra[0] == (void *)1 && *(int *)extra[1] == 7 &&
           extra[2] == (void *)2 && *(size_t *)extra[3] == 4 && !extra[4];
}
CUresult cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = capturing; return 0; }
typedef struct {
    unsigned gx, gy, gz, bx, by, bz, shared;
    void *stream;
    struct { int id, pad, value[16]; } *attributes;
    unsigned count;
} Config;
CUresult cuLaunchKernelEx(const Config *config, void *f, void **params, void **extra) {
    int is_right = config->gx == 2 && config->gy == 1 && config->gz == 1 && config->bx == 256 && config->by == 1 &&
                   config->bz == 1 && !config->shared && config->stream == (void *)0x70 && !params && is_own(f, extra) &&
                   config->count == 1 && config->attributes->id == 6 && config->attributes->value[0] == 1;
    if (!is_right) return 999;
    if (old) return 1;
    early++;
    return 0;
}

CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **params, void **extra) {
    if (f == (void *)0x10) {
        printf("launch %p %u %u %u %u %u %u %u %p %p %p\n", f, gx, gy, gz, bx, by, bz, shared, stream, (void *)params,
               (void *)extra);
        return 7;
    }
    if (is_own(f, extra)) {
        plain++;
        return gx == 2 && bx == 256 && stream == (plain == 1 ? (void *)0x50 : (void *)0x70) ? 0 : 999;
    }
    Function *function = f;
    int checked = !!strstr(function->name, "__ringfence");
    if (checked && getenv("FAKE_RESOURCES")) return 701;
    /* scale(unsigned long long, unsigned), then launch ordinal, base, size, limit, range of the index. */
    unsigned long long words[7] = {0};
    if (params) {
        memcpy(&words[0], params[0], 8);
        memcpy(&words[1], params[1], 4);
        if (checked) memcpy(&words[2], params[2], 40);
    } else {
        char *block = extra[1];
        size_t size = *(size_t *)extra[3];
        if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] || size != (checked ? 56 : 12)) return 1;
        memcpy(&words[0], block, 8);
        memcpy(&words[1], block + 8, 4);
        if (checked) memcpy(&words[2], block + 16, 40);
    }
    printf("%s block %u: %#llx %llu, launch %llu of %#llx+%llu below %llu, index %d+%u\n", function->name, bx, words[0],
           words[1], words[2], words[3], words[4], words[5], (int)words[6], (unsigned)(words[6] >> 32));
    return 0;
}

/* One context, which every thread has unless told otherwise. */
static __thread void *current = (void *)0xc0;
CUresult fakeForgetContext(void) { current = 0; return 0; }
CUresult cuCtxGetCurrent(void **context) { *context = current; return 0; }
CUresult cuCtxPushCurrent_v2(void *context) { current = context; return 0; }
CUresult cuCtxPopCurrent_v2(void **context) { *context = current; current = 0; return 0; }
static __thread int mode = 0;
CUresult fakeMode(void) { return mode; }
CUresult cuThreadExchangeStreamCaptureMode(int *exchanged) {
    int old = mode;
    mode = *exchanged, *exchanged = old;
    return 0;
}
CUresult cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)0x50; return flags == 1 ? 0 : 1; }
CUresult cuStreamSynchronize(void *stream) { (void)stream; return 0; }
CUresult cuDeviceGetCount(int *count) { *count = 3; return 0; }
CUresult cuDeviceCanAccessPeer(int *can, int device, int peer) { *can = device == 2 && peer == 0; return 0; }
CUresult cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
CUresult cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    snprintf(name, size, "Fake GPU");
    return 0;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 9 : 0;
    return 0;
}

/* Like the real one: a hint that does not fit is moved. */
CUresult cuMemAddressReserve(unsigned long long *base, size_t size, size_t alignment, unsigned long long hint,
                             unsigned long long flags) {
    (void)alignment, (void)flags;
    int mapping = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *found = mmap((void *)hint, size, PROT_NONE, mapping | MAP_FIXED_NOREPLACE, -1, 0);
    if (found == MAP_FAILED) found = mmap(0, size, PROT_NONE, mapping, -1, 0);
    if (found == MAP_FAILED) return 2;
    *base = (unsigned long long)found;
    return 0;
}
CUresult cuMemAddressFree(unsigned long long base, size_t size) { return munmap((void *)base, size) ? 1 : 0; }
CUresult cuMemCreate(unsigned long long *handle, size_t size, const void *properties, unsigned long long flags) {
    (void)properties, (void)flags;
    *handle = 0x90;
    return size % (2 << 20) ? 1 : 0;
}
CUresult cuMemMap(unsigned long long base, size_t size, size_t offset, unsigned long long handle,
                  unsigned long long flags) {
    (void)base, (void)size, (void)offset, (void)flags;
    return handle == 0x90 ? 0 : 1;
}
CUresult cuMemRelease(unsigned long long handle) { return handle == 0x90 ? 0 : 1; }
CUresult cuMemSetAccess(unsigned long long base, size_t size, const void *description, size_t count) {
    const int *words = description; /* type, device, flags */
    if (count != 2 || words[1] != 0 || words[4] != 2) return 1;
    if (mprotect((void *)base, size, PROT_READ | PROT_WRITE)) return 1;
    /* Fresh device memory holds anything. */
    memset((void *)base, 0xa5, size < (2 << 20) ? size : (2 << 20));
    return 0;
}
CUresult cuMemsetD32Async(unsigned long long to, unsigned value, size_t count, void *stream) {
    if (stream != (void *)0x50 || mode != 2) return 1;
    for (size_t i = 0; i < count; i++) ((unsigned *)to)[i] = value;
    return 0;
}
CUresult cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
    if (stream != (void *)0x50 || mode != 2) return 1;
    memcpy((void *)to, from, bytes);
    return 0;
}
CUresult cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream) {
    if (stream != (void *)0x50 || mode != 2) return 1;
    memcpy(to, (void *)from, bytes);
    return 0;
}
CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    (void)memory, (void)bytes;
    return flags == 3 ? 0 : 1;
}
CUresult cuMemHostUnregister(void *memory) { (void)memory; return 0; }
CUresult cuMemHostGetDevicePointer_v2(unsigned long long *pointer, void *memory, unsigned flags) {
    (void)flags;
    *pointer = (unsigned long long)memory + (getenv("FAKE_OTHER_POINTER") ? 4096 : 0);
    return 0;
}
CUresult cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer) {
    if (pointer < 0x7f0000000000) return 1;
    if (attribute == 11) *(unsigned long long *)data = pointer & ~511ull;
    else if (attribute == 12) *(size_t *)data = 512;
    else return 1;
    return 0;
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
CUresult cuCtxGetDevice(int *device) { *device = getenv("FAKE_DEVICE") ? atoi(getenv("FAKE_DEVICE")) : 0; return 0; }
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
