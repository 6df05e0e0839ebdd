// printf, malloc and free of a fenced program. `cargo xtask generate` compiles
// this file to `crates/instrument/src/device/tenant.ptx`, whose functions are
// added to modules that call them, and are fenced like the program's own: they
// are right for programs that keep to the rules, and harmless for others.
// crates/model/src/layout/tenant.rs explains the structs.

#include "layout.cuh"

#define INLINE static __device__ __forceinline__
#define ROLLED _Pragma("unroll 1")

extern "C" __device__ TenantPrint __ringfence_print;
extern "C" __device__ TenantHeap __ringfence_heap;

// ---- printf -------------------------------------------------------------

// A place in a format, and in its arguments.
struct Walk {
    const char *format;
    u32 length, at;
    const char *arguments;
    u32 taken, count;
};

// The place of the next argument, of so many bytes.
INLINE u32 take(Walk &walk, u32 bytes) {
    u32 at = (walk.taken + bytes - 1) & ~(bytes - 1);
    walk.taken = at + bytes;
    walk.count++;
    return at;
}

INLINE char peek(const Walk &walk) { return walk.at < walk.length ? walk.format[walk.at] : 0; }

INLINE bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Goes on to behind the next string (crates/model/src/printf/format.rs): the
// string, and how many of its bytes are printed. False if there is none. Each
// argument is aligned to its size (PTX interoperability guide, "System Calls").
INLINE bool next_string(Walk &walk, const char **text, u32 *most) {
    ROLLED while (walk.at < walk.length) {
        if (walk.format[walk.at++] != '%') continue;
        char c = peek(walk);
        if (c == '%') {
            walk.at++;
            continue;
        }
        u32 taken = walk.taken, count = walk.count;
        ROLLED while (c == '-' || c == '+' || c == ' ' || c == '#' || c == '0') {
            walk.at++;
            c = peek(walk);
        }
        if (c == '*') {
            take(walk, 4);
            walk.at++;
        } else {
            ROLLED while (is_digit(peek(walk))) walk.at++;
        }
        u32 limit = RF_PRINT_STRING;
        if (peek(walk) == '.') {
            walk.at++;
            u32 precision = 0;
            ROLLED while (is_digit(peek(walk))) {
                precision = precision * 10 + (walk.format[walk.at++] - '0');
                if (precision > limit) precision = limit;
            }
            limit = precision;
        }
        bool is_long = false;
        c = peek(walk);
        if (c == 'h') {
            walk.at++;
        } else if (c == 'l') {
            is_long = true;
            walk.at++;
            if (peek(walk) == 'l') walk.at++;
        }
        c = peek(walk);
        u32 bytes = 0;
        if (c == 'd' || c == 'i' || c == 'o' || c == 'u' || c == 'x' || c == 'X') bytes = is_long ? 8 : 4;
        if (c == 'c') bytes = 4;
        char lower = c | 0x20;
        if ((lower >= 'e' && lower <= 'g') || lower == 'a' || c == 'p' || c == 's') bytes = 8;
        if (bytes == 0) {
            // What is no conversion is printed as it stands, and takes nothing.
            walk.taken = taken;
            walk.count = count;
            continue;
        }
        u32 place = take(walk, bytes);
        if (walk.taken > RF_PRINT_ARGUMENTS) {
            walk.taken = taken;
            walk.count = count;
            return false;
        }
        walk.at++;
        if (c != 's') continue;
        *text = *(const char *const *)(walk.arguments + place);
        *most = limit;
        return true;
    }
    return false;
}

// Bytes of a string before its end.
INLINE u32 bounded(const char *text, u32 most) {
    u32 length = 0;
    if (!text) return 0;
    ROLLED while (length < most && text[length]) length++;
    return length;
}

INLINE u32 whole(u32 bytes) { return (bytes + 7) & ~7u; }

INLINE char *copy(char *to, const char *from, u32 bytes) {
    ROLLED for (u32 i = 0; i < bytes; i++) to[i] = from[i];
    return to + bytes;
}

// vprintf: copies the format, its arguments and its strings to a record.
extern "C" __device__ u32 __ringfence_vprintf(const char *format, const char *arguments) {
    TenantPrint *print = &__ringfence_print;
    if (!format) return ~0u;
    Walk walk = {format, bounded(format, RF_PRINT_FORMAT), 0, arguments, 0, 0};
    Walk again = walk;
    u32 strings = 0, most = 0;
    const char *text = 0;
    ROLLED while (next_string(walk, &text, &most)) strings += bounded(text, most) + 1;
    u32 taken = walk.taken < RF_PRINT_ARGUMENTS ? walk.taken : RF_PRINT_ARGUMENTS;
    u32 total = sizeof(PrintHead) + whole(walk.length) + whole(taken) + whole(strings);
    u64 at = atomicAdd(&print->used, (u64)total);
    if (at + total > print->size) {
        atomicAdd(&print->lost, 1ull);
        return walk.count;
    }
    char *record = (char *)(print->records + at);
    PrintHead *head = (PrintHead *)record;
    record += sizeof(PrintHead);
    copy(record, format, walk.length);
    record += whole(walk.length);
    copy(record, arguments, taken);
    record += whole(taken);
    u32 left = strings;
    ROLLED while (left && next_string(again, &text, &most)) {
        // (Other threads may have changed it since.)
        u32 length = bounded(text, most < left - 1 ? most : left - 1);
        record = copy(record, text, length);
        *record++ = 0;
        left -= length + 1;
    }
    head->format = walk.length;
    head->arguments = taken;
    head->strings = strings;
    __threadfence();
    *(volatile u32 *)&head->total = total;
    return walk.count;
}

// ---- malloc and free ----------------------------------------------------

extern "C" __device__ char *__ringfence_malloc(u64 size) {
    TenantHeap *heap = &__ringfence_heap;
    u64 end = heap->size;
    if (size == 0 || size > end) return 0;
    u32 which = 64 - __clzll(size + RF_TENANT_HEAD - 1);
    if (which < RF_TENANT_LEAST) which = RF_TENANT_LEAST;
    if (which >= RF_TENANT_CLASSES) return 0;
    char *base = (char *)heap->base, *block = 0;
    u64 head = *(volatile u64 *)&heap->free[which];
    ROLLED while ((u32)head) {
        char *first = base + (u64)(u32)head * 32;
        u32 next = *(volatile u32 *)(first + RF_TENANT_HEAD);
        u64 seen = atomicCAS(&heap->free[which], head, ((head >> 32) + 1) << 32 | next);
        if (seen == head) {
            block = first;
            break;
        }
        head = seen;
    }
    if (!block) {
        u64 bytes = 1ull << which, used = *(volatile u64 *)&heap->used;
        ROLLED for (;;) {
            // (As if all of it were in use, where the sum is too large.)
            if (used > end || bytes > end - used) return 0;
            u64 seen = atomicCAS(&heap->used, used, used + bytes);
            if (seen == used) break;
            used = seen;
        }
        block = base + used;
    }
    *(u64 *)block = RF_TENANT_LIVE + which;
    return block + RF_TENANT_HEAD;
}

extern "C" __device__ void __ringfence_free(char *pointer) {
    TenantHeap *heap = &__ringfence_heap;
    if (!pointer) return;
    char *block = pointer - RF_TENANT_HEAD;
    u64 place = block - (char *)heap->base;
    if (place >= heap->size || place % 32) return;
    // Once only, and only what `malloc` gave.
    u64 which = *(volatile u64 *)block - RF_TENANT_LIVE;
    if (which < RF_TENANT_LEAST || which >= RF_TENANT_CLASSES) return;
    if (atomicCAS((u64 *)block, RF_TENANT_LIVE + which, 0ull) != RF_TENANT_LIVE + which) return;
    u64 *list = &heap->free[which], head = *(volatile u64 *)list;
    ROLLED for (;;) {
        *(volatile u32 *)pointer = (u32)head;
        __threadfence();
        u64 seen = atomicCAS(list, head, ((head >> 32) + 1) << 32 | place / 32);
        if (seen == head) return;
        head = seen;
    }
}
