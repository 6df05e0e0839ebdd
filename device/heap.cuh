// Chunks, blocks and the quarantine of the device heap: what its users
// (`heap.cu`) and who verifies its canaries (`heap_guard.cuh`) share.
//
// A block's life, by the word of its header:
//
//     (0 or FREED, bit clear) --malloc sets the bit, then the word--> LIVE
//     LIVE --free: compare and swap; who wins owns the block--> FREED, held
//     FREED, held --leaves the quarantine: clears the bit--> free, FREED
//
// and where canaries are watched (`heap_guard.cuh`)
//
//     LIVE --free: compare and swap; who wins owns the block--> FREEING
//     FREEING --free: has marked the head canary--> FREED, recorded
//     FREED, recorded --the scanner verifies the canaries, drops the record,
//     and holds the block--> FREED, held
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

#include "layout.cuh"

#define CONTROL ((HeapControl *)RF_HEAP_CONTROL)
#define CHUNK ((HeapChunk *)RF_HEAP_CHUNKS)
#define HEADER ((HeapHeader *)RF_HEAP_HEADERS)
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
INLINE HeapHeader *header(u32 chunk, u32 block) { return HEADER + (u64)chunk * RF_CHUNK_BLOCKS + block; }

// Spreads warps over slots, the same way in each run.
INLINE u32 spread() {
    u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    return (blockIdx.x + blockIdx.y * 7 + blockIdx.z * 13) * 5 + thread / 32;
}

// A pointer whose value the compiler does not see through. ptxas 13.0 ends with
// a segmentation fault for sm_120 where a loop with two ways back, or calls in
// some places, follow on the sum of an index, a base and a large constant; so
// the base is made to be in a register.
template <typename T> INLINE T *opaque(T *place) {
    asm("" : "+l"(place));
    return place;
}

INLINE u64 address_of(u32 chunk) { return RF_HEAP_BASE + ((u64)chunk << RF_CHUNK_SHIFT); }

INLINE u32 lane() {
    u32 number;
    asm("mov.u32 %0, %%laneid;" : "=r"(number));
    return number;
}

// Threads of a warp that are at the same place and of one mind: they do
// together what would else be as many atomics on one address. A thread that
// goes alone is a team of one.
struct Team {
    u32 mask, rank, count;
    bool leads;
};

INLINE Team team_by(u32 mask) {
    Team team;
    team.mask = mask;
    team.rank = __popc(mask & ((1u << lane()) - 1));
    team.count = __popc(mask);
    team.leads = team.rank == 0;
    return team;
}

INLINE Team team_of(u32 mind) { return team_by(__match_any_sync(__activemask(), mind)); }

// Whether this thread leads, asked anew: a loop in which a team does something
// together may not be made into one for the leader and one for the others.
INLINE bool leads_now(const Team &team) {
    u32 number;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(number));
    return number == __ffs(team.mask) - 1;
}

INLINE u32 from_leader(const Team &team, u32 value) {
    return __shfl_sync(team.mask, value, __ffs(team.mask) - 1);
}

// The lowest `count` bits that are set.
INLINE u32 lowest(u32 bits, u32 count) {
    u32 kept = bits;
    ROLLED for (; count != 0 && kept != 0; count--) kept &= kept - 1;
    return bits & ~kept;
}

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
    if (!set(chunk, size_class)) return;
    store(&CONTROL->near[size_class], chunk >> 5);
    atomicAdd(&CONTROL->partial[size_class], 1);
}

INLINE void set_free(u32 chunk) {
    if (set(chunk, RF_MAP_FREE)) atomicAdd(&CONTROL->free_chunks, 1);
    atomicMin(&CONTROL->low, chunk >> 5);
}

// Takes a chunk whose bit is set in a map, looking at words from `start` on.
OUTLINE u32 __ringfence_heap_take(u32 which, u32 start, int *left) {
    if (load(left) <= 0) return NONE;
    u32 words = which == RF_MAP_FREE ? (chunks() + 31) / 32 : load(&CONTROL->high) + 1;
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

INLINE void give_back(u32 chunk, u32 blocks) {
    HeapChunk *at = CHUNK + chunk;
    u32 kind = load(&at->kind), capacity = load(&at->capacity);
    int old = atomicAdd(&at->count, (int)blocks), now = old + (int)blocks;
    if (old <= 0 && now > 0 && kind - 1 < RF_CLASSES) set_partial(chunk, kind - 1);
    if (now == (int)capacity) store(&CONTROL->maybe_empty, 1u);
}

// Blocks of a chunk, by their bits in one word of its map.
INLINE u64 blocks_of(u32 chunk, u32 word, u32 bits) {
    return (u64)(chunk * RF_CHUNK_BLOCKS + word * 32) << 32 | bits;
}

// Up to so many blocks of a chunk that should be of this kind: in the upper half
// the handle of a block, in the lower half a bit for it and for those after it;
// no bits if there are none.
OUTLINE u64 __ringfence_heap_take_blocks(u32 chunk, u32 kind, u32 wanted) {
    HeapChunk *at = CHUNK + chunk;
    int left = load(&at->count);
    if (left <= 0) return 0;
    if (left < (int)wanted) wanted = left;
    int old = atomicSub(&at->count, (int)wanted);
    u32 reserved = old <= 0 ? 0 : old < (int)wanted ? old : wanted;
    if (reserved == 0 || load(&at->kind) != kind) {
        give_back(chunk, wanted);
        return 0;
    }
    u32 capacity = load(&at->capacity);
    u32 words = (capacity + 31) / 32;
    u32 word = spread() % words, got = 0;
    u32 *taken = opaque(at->taken);
    ROLLED for (;;) {
        u32 valid = word + 1 == words && capacity % 32 ? (1u << capacity % 32) - 1 : ~0u;
        u32 bits = ~load(&taken[word]) & valid;
        ROLLED while (bits) {
            u32 some = lowest(bits, reserved);
            u32 before = atomicOr(&taken[word], some);
            got = some & ~before;
            if (got) break;
            bits = ~(before | some) & valid;
        }
        if (got) break;
        word = word + 1 == words ? 0 : word + 1;
    }
    u32 more = wanted - __popc(got);
    if (more) give_back(chunk, more);
    return blocks_of(chunk, word, got);
}

// Makes a chunk that this thread alone has one of a class, and takes its first
// blocks.
OUTLINE u64 __ringfence_heap_begin(u32 chunk, u32 size_class, u32 stride, u32 wanted) {
    HeapChunk *at = CHUNK + chunk;
    u32 capacity = CHUNK_SIZE / stride;
    if (wanted > capacity) wanted = capacity;
    u32 got = wanted == 32 ? ~0u : (1u << wanted) - 1;
    bool used = load(&at->kind) != 0;
    ROLLED for (u32 i = 0; i < RF_CHUNK_BLOCKS / 32; i++) store(&at->taken[i], i == 0 ? got : 0u);
    if (used)
        ROLLED for (u32 i = 0; i < capacity; i++) store(&header(chunk, i)->word, 0ull);
    store(&at->stride, stride);
    store(&at->magic, (u32)((0xffffffffull + stride) / stride));
    store(&at->capacity, capacity);
    store(&at->kind, size_class + 1);
    if (load(&CONTROL->high) < chunk >> 5) atomicMax(&CONTROL->high, chunk >> 5);
    int gone = load(&at->reclaimed) ? GONE : 0;
    store(&at->reclaimed, 0u);
    __threadfence();
    atomicAdd(&at->count, (int)(capacity - wanted) - gone);
    return blocks_of(chunk, 0, got);
}

// ---- quarantine ---------------------------------------------------------

// A freed block may be used again.
OUTLINE void __ringfence_heap_release(u32 handle) {
    u32 chunk = handle / RF_CHUNK_BLOCKS, block = handle % RF_CHUNK_BLOCKS;
    HeapChunk *at = CHUNK + chunk;
    if (load(&at->kind) == RF_KIND_RUN) {
        u32 length = load(&at->stride);
        ROLLED for (u32 i = 0; i < length; i++) set_free(chunk + i);
        return;
    }
    Team team = team_of(chunk);
    atomicAnd(&at->taken[block / 32], ~(1u << block % 32));
    __threadfence();
    __syncwarp(team.mask);
    if (team.leads) give_back(chunk, team.count);
}

INLINE u32 bytes_of(u32 handle) {
    HeapChunk *at = CHUNK + handle / RF_CHUNK_BLOCKS;
    u32 stride = load(&at->stride);
    return load(&at->kind) == RF_KIND_RUN ? stride << RF_CHUNK_SHIFT : stride;
}

INLINE void leave(u32 handle) {
    atomicAdd(&CONTROL->held, 0ull - bytes_of(handle));
    __ringfence_heap_release(handle);
}

// Lets a block go that has left the quarantine.
OUTLINE void __ringfence_heap_release_at(u32 number) {
    u32 *place = QUARANTINE + number % RF_QUARANTINE_CAPACITY;
    u32 handle = load(place);
    // Not written yet: a thread that tries will find the tombstone.
    if (handle == 0) handle = atomicCAS(place, 0u, TOMB);
    if (handle != 0) {
        atomicExch(place, 0u);
        leave(handle);
    }
}

// The oldest blocks leave the quarantine: the first's number, and how many.
INLINE u32 take_oldest(u32 most, u32 *count) {
    ROLLED for (;;) {
        u32 tail = load(&CONTROL->tail), head = load(&CONTROL->head);
        int there = (int)(head - tail);
        *count = there <= 0 ? 0 : there < (int)most ? there : most;
        if (*count == 0 || atomicCAS(&CONTROL->tail, tail, tail + *count) == tail) return tail;
    }
}

// Lets the oldest block go; false if there is none.
OUTLINE bool __ringfence_heap_release_oldest() {
    u32 count, number = take_oldest(1, &count);
    if (count == 0) return false;
    __ringfence_heap_release_at(number);
    atomicAdd(&CONTROL->version, 1u);
    return true;
}

// Holds a freed block back, and lets go what exceeds the budget.
OUTLINE void __ringfence_heap_hold(u32 handle) {
    u64 budget = load(&CONTROL->quarantine_budget);
    if (budget == 0) {
        __ringfence_heap_release(handle);
        return;
    }
    u32 bytes = bytes_of(handle);
    Team team = team_of(bytes);
    u32 ticket = 0;
    if (team.leads) {
        atomicAdd(&CONTROL->held, (u64)bytes * team.count);
        ticket = atomicAdd(&CONTROL->head, team.count);
    }
    ticket = from_leader(team, ticket) + team.rank;
    u32 *place = QUARANTINE + ticket % RF_QUARANTINE_CAPACITY;
    if (atomicCAS(place, 0u, handle) == TOMB) {
        atomicExch(place, 0u);
        leave(handle);
    }
    __syncwarp(team.mask);
    ROLLED for (u32 i = 0; i < 64; i++) {
        u32 number = 0, count = 0;
        if (leads_now(team)) {
            u32 there = load(&CONTROL->head) - load(&CONTROL->tail);
            if (load(&CONTROL->held) > budget || there > RF_QUARANTINE_CAPACITY / 2)
                number = take_oldest(team.count, &count);
        }
        number = from_leader(team, number);
        count = from_leader(team, count);
        if (count == 0) break;
        if (team.rank < count) __ringfence_heap_release_at(number + team.rank);
        __syncwarp(team.mask);
        if (leads_now(team)) atomicAdd(&CONTROL->version, 1u);
    }
}
