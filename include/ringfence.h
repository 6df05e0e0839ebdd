/* ringfence.h: tell Ringfence what a program knows about its own memory.
 *
 * Ringfence holds every access to the allocation that its pointer came from.
 * A program that hands out parts of an allocation itself (a caching allocator,
 * an arena, a struct of arrays) can say where the parts are; then accesses are
 * held to them. Without Ringfence every function here does nothing, costs a
 * load and a branch, and needs no library. C99, C++11 and CUDA C++; Linux.
 *
 *   ringfence_pool_create(base, bytes)         The program's allocator manages
 *                                              this range of an allocation:
 *                                              what it has not handed out
 *                                              belongs to nobody.
 *   ringfence_pool_alloc(base, ptr, bytes)     It hands out a block of the pool
 *                                              that starts at base.
 *   ringfence_pool_free(ptr)                   It takes the block back.
 *   ringfence_pool_destroy(base)               It no longer manages the range.
 *   ringfence_region_create(ptr, bytes, name)  A part of an allocation, outside
 *                                              pools; name may be null.
 *   ringfence_region_destroy(ptr)              It is one no more.
 *   ringfence_poison(ptr, bytes)               Kernels must not access these bytes
 *                                              of an allocation.
 *   ringfence_unpoison(ptr, bytes)             They may again.
 *   ringfence_bounds(ptr, bytes)               In kernels: the same pointer,
 *                                              accesses through which stay
 *                                              within bytes.
 *
 * Poison is found under --protect shadow, and has no effect under other
 * protections; pools are poisoned there where nothing is handed out. Kernels that
 * were launched before may still access what is poisoned: it takes effect when the
 * host has waited for them, and ends at once. It ends with the allocation, too. Of
 * each block of --shadow-encoding bytes, poison is exact up to the block's end:
 * poisoned bytes with others behind them in their block are not found.
 *
 * Host functions return 0, or -1 if Ringfence is there and what was said
 * cannot be so: the range does not lie in one allocation, a block in no pool.
 * They may be called from any thread, as long as an allocation outlives what
 * is said about it.
 *
 * Pointers passed to kernels are held to parts of any size and alignment.
 * Pointers that kernels load from memory are distinguished by 256 bytes: blocks
 * that share such a granule are held to both. A block that was freed may still
 * be in use by kernels until the program waits for the device; only then are
 * such loaded pointers to it errors. */
#ifndef RINGFENCE_H
#define RINGFENCE_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What libringfence.so offers; members are only ever added at the end. */
struct ringfence_interface {
    size_t size;
    int (*region_create)(const void *pointer, size_t bytes, const char *name);
    int (*region_destroy)(const void *pointer);
    int (*pool_create)(const void *base, size_t bytes);
    int (*pool_destroy)(const void *base);
    int (*pool_alloc)(const void *base, const void *pointer, size_t bytes);
    int (*pool_free)(const void *pointer);
    int (*poison)(const void *pointer, size_t bytes);
    int (*unpoison)(const void *pointer, size_t bytes);
};

/* Null without Ringfence. Looked up once; threads that do so at the same time
 * find the same. */
static inline const struct ringfence_interface *ringfence_get_(void) {
    static const struct ringfence_interface *found;
    static int looked;
    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        void *symbol = dlsym((void *)0, "ringfence_get_interface");
        const struct ringfence_interface *(*get)(void);
        __builtin_memcpy(&get, &symbol, sizeof get);
        __atomic_store_n(&found, symbol ? get() : (const struct ringfence_interface *)0, __ATOMIC_RELAXED);
        __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found, __ATOMIC_RELAXED);
}

static inline int ringfence_region_create(const void *pointer, size_t bytes, const char *name) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return ringfence ? ringfence->region_create(pointer, bytes, name) : 0;
}

static inline int ringfence_region_destroy(const void *pointer) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return ringfence ? ringfence->region_destroy(pointer) : 0;
}

static inline int ringfence_pool_create(const void *base, size_t bytes) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return ringfence ? ringfence->pool_create(base, bytes) : 0;
}

static inline int ringfence_pool_destroy(const void *base) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return ringfence ? ringfence->pool_destroy(base) : 0;
}

static inline int ringfence_pool_alloc(const void *base, const void *pointer, size_t bytes) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return ringfence ? ringfence->pool_alloc(base, pointer, bytes) : 0;
}

static inline int ringfence_pool_free(const void *pointer) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return ringfence ? ringfence->pool_free(pointer) : 0;
}

/* Whether the library has a member: an older one has fewer. */
#define RINGFENCE_HAS_(ringfence, member)                                                              \
    ((ringfence) && (ringfence)->size >=                                                               \
                        offsetof(struct ringfence_interface, member) + sizeof (ringfence)->member)

static inline int ringfence_poison(const void *pointer, size_t bytes) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return RINGFENCE_HAS_(ringfence, poison) ? ringfence->poison(pointer, bytes) : 0;
}

static inline int ringfence_unpoison(const void *pointer, size_t bytes) {
    const struct ringfence_interface *ringfence = ringfence_get_();
    return RINGFENCE_HAS_(ringfence, unpoison) ? ringfence->unpoison(pointer, bytes) : 0;
}

#ifdef __cplusplus
}
#endif

#if defined(__CUDACC__) && defined(__cplusplus)
/* Ringfence knows this by the register's name and the move that follows; the
 * device's compiler drops both. */
static __device__ __forceinline__ void *ringfence_bounds_(void *p, unsigned long long bytes) {
    void *q;
    asm volatile("{\n\t.reg .b64 ringfence_bytes;\n\tmov.b64 ringfence_bytes, %2;\n\tmov.b64 %0, %1;\n\t}"
                 : "=l"(q)
                 : "l"(p), "l"(bytes));
    return q;
}

template <class T>
static __device__ __forceinline__ T *ringfence_bounds(T *p, size_t bytes) {
    return static_cast<T *>(ringfence_bounds_(const_cast<void *>(static_cast<const volatile void *>(p)), bytes));
}
#endif

#endif
