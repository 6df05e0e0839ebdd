// The heap of device-side malloc and free. `cargo xtask generate` compiles
// this file to `crates/instrument/src/heap.ptx`, whose functions are inserted
// into modules that allocate; numbers come from `model::layout` as -D options.
//
// Nothing waits for another thread, so lanes of one warp may run in any order.
//
// A block's life, by the word of its header:
//
//     (0 or FREED, bit clear) --malloc sets the bit, then the word--> LIVE
//     LIVE --free: compare and swap; who wins owns the block--> FREED, held
//     FREED, held --leaves the quarantine: clears the bit--> free, FREED
//
// A chunk's `count` is the number of blocks that may still be taken. A thread
// first takes one off it; holding that, it finds a clear bit, and the chunk
// stays of its class. A chunk whose count equals its capacity is given up by
// swapping the count for GONE, which only succeeds while no thread holds a
// reservation. Threads that come late see a count below one, or another kind,
// and put back what they took.
//
// A chunk with free blocks is reached through a slot of `active` or through
// its bit in the class's map. The bit is set whenever the count rises from
// zero, so no chunk is lost; a bit or slot that points to a chunk that is full
// or of another class by now is only skipped.

typedef unsigned int u32;
typedef unsigned long long u64;

struct Control {
    u64 budget, held;
    u32 head, tail;
    int free_chunks;
    u32 low, maybe_empty, reclaiming, version, reserved;
    int partial[RF_CLASSES + 1];
    u32 active[RF_CLASSES][RF_SLOTS];
};

struct Chunk {
    u32 kind, stride, magic, capacity;
    int count;
    u32 reclaimed, reserved[2];
    u32 taken[RF_CHUNK_BLOCKS / 32];
};

struct Header {
    u64 word, allocated, freed;
    u32 allocated_launch, freed_launch;
};

struct Bounds {
    u64 base, size;
};

#define CONTROL ((Control *)RF_HEAP_CONTROL)
#define CHUNK ((Chunk *)RF_HEAP_CHUNKS)
#define HEADER ((Header *)RF_HEAP_HEADERS)
#define MAP ((u32 *)RF_HEAP_MAPS)
#define QUARANTINE ((u32 *)RF_HEAP_QUARANTINE)

static const u32 CHUNK_SIZE = 1u << RF_CHUNK_SHIFT;
static const u32 NONE = ~0u;
static const int GONE = -(1 << 30);
static const u32 TOMB = 1;  // no handle: chunk 0 holds no blocks
static const u64 SIZE_MASK = (1ull << RF_STATE_SHIFT) - 1;

#define INLINE static __device__ __forceinline__
// Real functions: the text goes into every module that allocates.
#define OUTLINE extern "C" __device__ __noinline__
#define ROLLED _Pragma("unroll 1")

// Other threads change what is read: never from the first-level cache.
template <typename T> INLINE T load(const T *place) { return *(const volatile T *)place; }
template <typename T> INLINE void store(T *place, T value) { *(volatile T *)place = value; }

INLINE u32 chunks() { return (u32)load((u64 *)RF_HEAP_CHUNKS_MAPPED); }
INLINE u32 *map(u32 word, u32 which) { return MAP + (u64)word * RF_MAP_WORDS + which; }
INLINE Header *header(u32 chunk, u32 block) { return HEADER + (u64)chunk * RF_CHUNK_BLOCKS + block; }
INLINE u64 address(u32 chunk) { return RF_HEAP_BASE + ((u64)chunk << RF_CHUNK_SHIFT); }

// Spreads warps over slots, the same way in each run.
INLINE u32 spread() {
    u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    return (blockIdx.x + blockIdx.y * 7 + blockIdx.z * 13) * 5 + thread / 32;
}

// A pointer whose value the compiler does not see through. ptxas 13.0 ends with
// a segmentation fault for sm_120 where a loop with two ways back adds an index,
// a base and a large constant; so the base is made to be in a register.
template <typename T> INLINE T *opaque(T *place) {
    asm("" : "+l"(place));
    return place;
}

INLINE u32 lane() { return threadIdx.x & 31; }

// The class of blocks that take `need` bytes, at most a chunk.
INLINE u32 class_of(u32 need, u32 *stride) {
    u32 last, step, number;
    if (need <= 512) { last = 0; step = 64; number = 0; }
    else if (need <= 1024) { last = 512; step = 128; number = 8; }
    else if (need <= 2048) { last = 1024; step = 256; number = 12; }
    else {
        if (need <= 2336) { *stride = 2336; return 16; }
        if (need <= 2720) { *stride = 2720; return 17; }
        if (need <= 3264) { *stride = 3264; return 18; }
        if (need <= 4096) { *stride = 4096; return 19; }
        if (need <= 5456) { *stride = 5456; return 20; }
        if (need <= 8192) { *stride = 8192; return 21; }
        *stride = 16384;
        return 22;
    }
    u32 steps = (need - last + step - 1) / step;
    *stride = last + steps * step;
    return number + steps - 1;
}

// ---- chunks -------------------------------------------------------------

// Sets a bit of a map; whether it was clear.
INLINE bool set(u32 chunk, u32 which) {
    u32 bit = 1u << (chunk & 31);
    return !(atomicOr(map(chunk >> 5, which), bit) & bit);
}

INLINE void set_partial(u32 chunk, u32 size_class) {
    if (set(chunk, size_class)) atomicAdd(&CONTROL->partial[size_class], 1);
}

INLINE void set_free(u32 chunk) {
    if (set(chunk, RF_MAP_FREE)) atomicAdd(&CONTROL->free_chunks, 1);
    atomicMin(&CONTROL->low, chunk >> 5);
}

// Takes a chunk whose bit is set in a map, looking at words from `start` on.
OUTLINE u32 __ringfence_heap_take(u32 which, u32 start, int *left) {
    if (load(left) <= 0) return NONE;
    u32 words = (chunks() + 31) / 32;
    if (start >= words) start = 0;
    ROLLED for (u32 i = 0; i < words; i++) {
        u32 word = start + i;
        if (word >= words) word -= words;
        u32 *place = map(word, which);
        u32 bits = load(place);
        ROLLED while (bits) {
            u32 bit = bits & -bits;
            u32 old = atomicAnd(place, ~bit);
            if (old & bit) {
                atomicSub(left, 1);
                if (which == RF_MAP_FREE) store(&CONTROL->low, word);
                return word * 32 + __ffs(bit) - 1;
            }
            bits = old & ~bit;
        }
    }
    return NONE;
}

INLINE void give_back(u32 chunk) {
    Chunk *at = CHUNK + chunk;
    u32 kind = load(&at->kind), capacity = load(&at->capacity);
    int old = atomicAdd(&at->count, 1);
    if (old == 0 && kind - 1 < RF_CLASSES) set_partial(chunk, kind - 1);
    if (old + 1 == (int)capacity) store(&CONTROL->maybe_empty, 1u);
}

// A block of a chunk that should be of this kind: its index, or NONE.
OUTLINE u32 __ringfence_heap_take_block(u32 chunk, u32 kind) {
    Chunk *at = CHUNK + chunk;
    if (load(&at->count) <= 0) return NONE;
    int old = atomicSub(&at->count, 1);
    if (old <= 0 || load(&at->kind) != kind) {
        give_back(chunk);
        return NONE;
    }
    u32 capacity = load(&at->capacity);
    u32 words = (capacity + 31) / 32;
    u32 word = (lane() / 4 + spread()) % words;
    u32 *taken = opaque(at->taken);
    ROLLED for (;;) {
        u32 valid = word + 1 == words && capacity % 32 ? (1u << capacity % 32) - 1 : ~0u;
        u32 bits = ~load(&taken[word]) & valid;
        ROLLED while (bits) {
            u32 bit = bits & -bits;
            u32 before = atomicOr(&taken[word], bit);
            if (!(before & bit)) return word * 32 + __ffs(bit) - 1;
            bits = ~(before | bit) & valid;
        }
        word = word + 1 == words ? 0 : word + 1;
    }
}

// Makes a chunk that this thread alone has one of a class, and takes block 0.
OUTLINE void __ringfence_heap_begin(u32 chunk, u32 size_class, u32 stride) {
    Chunk *at = CHUNK + chunk;
    u32 capacity = CHUNK_SIZE / stride;
    bool used = load(&at->kind) != 0;
    ROLLED for (u32 i = 0; i < RF_CHUNK_BLOCKS / 32; i++) store(&at->taken[i], i == 0 ? 1u : 0u);
    if (used)
        ROLLED for (u32 i = 0; i < capacity; i++) store(&header(chunk, i)->word, 0ull);
    store(&at->stride, stride);
    store(&at->magic, (u32)((0xffffffffull + stride) / stride));
    store(&at->capacity, capacity);
    store(&at->kind, size_class + 1);
    int gone = load(&at->reclaimed) ? GONE : 0;
    store(&at->reclaimed, 0u);
    __threadfence();
    atomicAdd(&at->count, (int)capacity - 1 - gone);
}

// ---- quarantine ---------------------------------------------------------

// A freed block may be used again.
OUTLINE void __ringfence_heap_release(u32 handle) {
    u32 chunk = handle / RF_CHUNK_BLOCKS, block = handle % RF_CHUNK_BLOCKS;
    Chunk *at = CHUNK + chunk;
    u32 stride = load(&at->stride);
    bool run = load(&at->kind) == RF_KIND_RUN;
    u64 bytes = run ? (u64)stride << RF_CHUNK_SHIFT : stride;
    atomicAdd(&CONTROL->held, 0ull - bytes);
    if (run) {
        ROLLED for (u32 i = 0; i < stride; i++) set_free(chunk + i);
    } else {
        atomicAnd(&at->taken[block / 32], ~(1u << block % 32));
        __threadfence();
        give_back(chunk);
    }
}

// Lets the oldest block go; false if there is none.
OUTLINE bool __ringfence_heap_release_oldest() {
    ROLLED for (;;) {
        u32 tail = load(&CONTROL->tail), head = load(&CONTROL->head);
        if ((int)(head - tail) <= 0) return false;
        if (atomicCAS(&CONTROL->tail, tail, tail + 1) != tail) continue;
        u32 *place = QUARANTINE + tail % RF_QUARANTINE_CAPACITY;
        u32 handle = load(place);
        // Not written yet: whoever wants to will find the stone.
        if (handle == 0) handle = atomicCAS(place, 0u, TOMB);
        if (handle != 0) {
            atomicExch(place, 0u);
            __ringfence_heap_release(handle);
        }
        atomicAdd(&CONTROL->version, 1u);
        return true;
    }
}

// Holds a freed block back, and lets go what exceeds the budget.
OUTLINE void __ringfence_heap_hold(u32 handle, u64 bytes) {
    u64 held = atomicAdd(&CONTROL->held, bytes) + bytes;
    u32 ticket = atomicAdd(&CONTROL->head, 1u);
    u32 *place = QUARANTINE + ticket % RF_QUARANTINE_CAPACITY;
    if (atomicCAS(place, 0u, handle) == TOMB) {
        atomicExch(place, 0u);
        __ringfence_heap_release(handle);
        return;
    }
    u64 budget = load(&CONTROL->budget);
    ROLLED for (u32 i = 0; i < 64; i++) {
        u32 count = load(&CONTROL->head) - load(&CONTROL->tail);
        if (held <= budget && count <= RF_QUARANTINE_CAPACITY / 2) break;
        if (!__ringfence_heap_release_oldest()) break;
        held = load(&CONTROL->held);
    }
}

// ---- when memory is short -----------------------------------------------

// Gives up chunks of which no block is in use. Whether there were any.
OUTLINE bool __ringfence_heap_reclaim() {
    if (!load(&CONTROL->maybe_empty) && !load(&CONTROL->reclaiming)) return false;
    atomicAdd(&CONTROL->reclaiming, 1u);
    store(&CONTROL->maybe_empty, 0u);
    __threadfence();
    bool found = false;
    u32 end = chunks();
    ROLLED for (u32 chunk = 1; chunk < end; chunk++) {
        Chunk *at = CHUNK + chunk;
        if (load(&at->kind) - 1 >= RF_CLASSES) continue;
        int capacity = (int)load(&at->capacity);
        if (load(&at->count) != capacity || atomicCAS(&at->count, capacity, GONE) != capacity) continue;
        store(&at->reclaimed, 1u);
        __threadfence();
        set_free(chunk);
        found = true;
    }
    if (found) atomicAdd(&CONTROL->version, 1u);
    atomicSub(&CONTROL->reclaiming, 1u);
    return found;
}

// Whether it is worth looking again.
OUTLINE bool __ringfence_heap_make_room(u32 seen) {
    bool any = false;
    ROLLED for (u32 i = 0; i < 64 && __ringfence_heap_release_oldest(); i++) any = true;
    if (any && load(&CONTROL->free_chunks) > 0) return true;
    return __ringfence_heap_reclaim() || any || load(&CONTROL->version) != seen;
}

// ---- allocation ---------------------------------------------------------

// A block's name: its chunk, which is never 0, and its index.
INLINE u32 handle_of(u32 chunk, u32 block) { return chunk * RF_CHUNK_BLOCKS + block; }

// A block of a class; 0 if there is none.
OUTLINE u32 __ringfence_heap_small_block(u32 size_class, u32 stride) {
    u32 kind = size_class + 1, capacity = CHUNK_SIZE / stride;
    u32 slots = capacity >= 32 ? RF_SLOTS : capacity >= 4 ? 8 : 1;
    u32 *active = CONTROL->active[size_class];
    u32 *slot = active + spread() % slots;
    ROLLED for (;;) {
        u32 seen = load(&CONTROL->version);
        u32 current = load(slot);
        if (current) {
            u32 block = __ringfence_heap_take_block(current - 1, kind);
            if (block != NONE) return handle_of(current - 1, block);
        }
        u32 block = NONE, chunk;
        ROLLED do {
            chunk = __ringfence_heap_take(size_class, spread(), &CONTROL->partial[size_class]);
            if (chunk == NONE) break;
            block = __ringfence_heap_take_block(chunk, kind);
        } while (block == NONE);
        if (chunk == NONE) {
            chunk = __ringfence_heap_take(RF_MAP_FREE, load(&CONTROL->low), &CONTROL->free_chunks);
            if (chunk != NONE) {
                __ringfence_heap_begin(chunk, size_class, stride);
                block = 0;
            }
        }
        if (block != NONE) {
            // Whoever was faster has filled the slot; the chunk stays known.
            if (atomicCAS(slot, current, chunk + 1) != current && load(&CHUNK[chunk].count) > 0)
                set_partial(chunk, size_class);
            return handle_of(chunk, block);
        }
        ROLLED for (u32 i = 0; i < slots; i++) {
            u32 other = load(active + i);
            block = other ? __ringfence_heap_take_block(other - 1, kind) : NONE;
            if (block != NONE) return handle_of(other - 1, block);
        }
        if (!__ringfence_heap_make_room(seen)) return 0;
    }
}

// A run of free chunks, from the top: small blocks come from below.
OUTLINE u32 __ringfence_heap_take_run(u32 length) {
    u32 chunk = chunks(), run = 0;
    ROLLED while (chunk > 1) {
        u32 word = load(map((chunk - 1) >> 5, RF_MAP_FREE));
        if (word == 0) {
            run = 0;
            chunk = (chunk - 1) & ~31u;
            continue;
        }
        chunk--;
        run = word >> (chunk & 31) & 1 ? run + 1 : 0;
        if (run < length) continue;
        u32 taken = 0;
        ROLLED for (; taken < length; taken++) {
            u32 next = chunk + taken, bit = 1u << (next & 31);
            if (!(atomicAnd(map(next >> 5, RF_MAP_FREE), ~bit) & bit)) break;
            atomicSub(&CONTROL->free_chunks, 1);
        }
        if (taken == length) return chunk;
        ROLLED for (u32 i = 0; i < taken; i++) set_free(chunk + i);
        run = 0;
    }
    return NONE;
}

// A large block; 0 if there is none.
OUTLINE u32 __ringfence_heap_large_block(u32 length) {
    ROLLED for (;;) {
        u32 seen = load(&CONTROL->version);
        u32 chunk = __ringfence_heap_take_run(length);
        if (chunk != NONE) {
            ROLLED for (u32 i = 1; i < length; i++) {
                store(&CHUNK[chunk + i].stride, chunk);
                store(&CHUNK[chunk + i].kind, (u32)RF_KIND_REST);
            }
            store(&CHUNK[chunk].stride, length);
            store(&CHUNK[chunk].kind, (u32)RF_KIND_RUN);
            return handle_of(chunk, 0);
        }
        if (!__ringfence_heap_make_room(seen)) return 0;
    }
}

// malloc. `where` is the call: half the module's tag, and the site.
OUTLINE u64 __ringfence_malloc(u64 size, u64 where, u64 launch) {
    // One byte more: the end of a block is no other block's start.
    if (size >= (u64)chunks() << RF_CHUNK_SHIFT) return 0;
    u64 need = size + 1;
    u32 handle, stride = 0;
    if (need <= CHUNK_SIZE) {
        u32 size_class = class_of((u32)need, &stride);
        handle = __ringfence_heap_small_block(size_class, stride);
    } else {
        handle = __ringfence_heap_large_block((u32)((need + CHUNK_SIZE - 1) >> RF_CHUNK_SHIFT));
    }
    if (handle == 0) return 0;
    u32 chunk = handle / RF_CHUNK_BLOCKS, block = handle % RF_CHUNK_BLOCKS;
    u64 base = address(chunk) + block * stride;
    Header *head = header(chunk, block);
    store(&head->allocated, where);
    store(&head->freed, 0ull);
    store(&head->allocated_launch, (u32)launch);
    store(&head->freed_launch, 0u);
    __threadfence();
    store(&head->word, (u64)RF_STATE_LIVE << RF_STATE_SHIFT | size);
    __threadfence();
    return base;
}

// ---- from an address to its block ---------------------------------------

struct Place {
    u32 chunk, block;
    u64 base;
};

INLINE bool find(u64 pointer, Place *place) {
    u64 offset = pointer - RF_HEAP_BASE;
    if (offset >> RF_CHUNK_SHIFT >= chunks()) return false;
    u32 chunk = (u32)(offset >> RF_CHUNK_SHIFT), block = 0;
    u32 kind = load(&CHUNK[chunk].kind);
    u64 base;
    if (kind - 1 < RF_CLASSES) {
        block = __umulhi((u32)offset & (CHUNK_SIZE - 1), load(&CHUNK[chunk].magic));
        if (block >= load(&CHUNK[chunk].capacity)) return false;
        base = address(chunk) + block * load(&CHUNK[chunk].stride);
    } else {
        if (kind == RF_KIND_REST) {
            // A dangling pointer may see a chunk change.
            chunk = load(&CHUNK[chunk].stride);
            if (chunk >= chunks()) return false;
        } else if (kind != RF_KIND_RUN) {
            return false;
        }
        base = address(chunk);
    }
    place->chunk = chunk;
    place->block = block;
    place->base = base;
    return true;
}

// Bounds of the live block that a pointer points into, its end included; the
// pointer itself and no bytes if there is none.
OUTLINE Bounds __ringfence_block(u64 pointer) {
    Bounds bounds = {pointer, 0};
    Place place;
    if (find(pointer, &place)) {
        u64 word = load(&header(place.chunk, place.block)->word);
        u64 size = word & SIZE_MASK;
        if (word >> RF_STATE_SHIFT == RF_STATE_LIVE && pointer - place.base <= size) {
            bounds.base = place.base;
            bounds.size = size;
        }
    }
    return bounds;
}

// ---- free ---------------------------------------------------------------

extern "C" __device__ void __ringfence_append(u32 site, u64 address, u64 base, u64 size, u64 launch);

// free. What is wrong with the pointer is left as a record.
OUTLINE void __ringfence_free(u64 pointer, u64 where, u64 launch) {
    if (pointer == 0) return;
    Place place;
    u64 base = 0, size = 0, verdict = RF_FREE_NOTHING;
    if (find(pointer, &place)) {
        Header *head = header(place.chunk, place.block);
        u64 word = load(&head->word), state = word >> RF_STATE_SHIFT;
        size = word & SIZE_MASK;
        if (state != 0 && pointer - place.base <= size) {
            base = place.base;
            verdict = pointer != base ? RF_FREE_INSIDE : RF_FREE_AGAIN;
            u64 freed = (u64)RF_STATE_FREED << RF_STATE_SHIFT | size;
            if (pointer == base && state == RF_STATE_LIVE && atomicCAS(&head->word, word, freed) == word) {
                store(&head->freed, where);
                store(&head->freed_launch, (u32)launch);
                __threadfence();
                Chunk *at = CHUNK + place.chunk;
                u64 stride = load(&at->stride);
                __ringfence_heap_hold(handle_of(place.chunk, place.block),
                     load(&at->kind) == RF_KIND_RUN ? stride << RF_CHUNK_SHIFT : stride);
                return;
            }
        }
    } else if (load((u64 *)RF_MISS_SIZE) != 0) {
        // Other code of the process has a heap of its own.
        return;
    }
    __ringfence_append((u32)where, pointer, base, size | verdict << RF_STATE_SHIFT, launch);
}

// ---- bounds that a thread has held for a while ---------------------------

// The size of bounds that were found earlier, or 0 if their block was freed
// since. Bounds of other memory stay.
OUTLINE u64 __ringfence_still(u64 base, u64 size) {
    u64 offset = base - RF_HEAP_BASE;
    if (size == 0 || offset >> RF_CHUNK_SHIFT >= chunks()) return size;
    Place place;
    if (!find(base, &place) || place.base != base) return 0;
    u64 live = (u64)RF_STATE_LIVE << RF_STATE_SHIFT | size;
    return load(&header(place.chunk, place.block)->word) == live ? size : 0;
}
