// The heap of device-side malloc and free. `cargo xtask generate` compiles
// this file to `crates/instrument/src/device/heap.ptx`, whose functions are
// inserted into modules that allocate.
//
// Threads of a warp that are at the same place work as a team. Beyond that
// nobody waits for another thread, but where memory is short and another is
// about to give some back.

#include "heap.cuh"
#include "heap_guard.cuh"

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
        HeapChunk *at = CHUNK + chunk;
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

// Whether it is worth looking again, for a team, all of whose threads call it.
OUTLINE bool __ringfence_heap_make_room(u32 seen, u32 mask) {
    Team team = team_by(mask);
    if (__ringfence_heap_collect(mask)) return true;
    bool any = false;
    if (team.leads) {
        ROLLED for (u32 i = 0; i < 64 && __ringfence_heap_release_oldest(); i++) any = true;
        if (!any || load(&CONTROL->free_chunks) <= 0)
            any = __ringfence_heap_reclaim() || any || load(&CONTROL->version) != seen;
    }
    return from_leader(team, any);
}

// ---- allocation ---------------------------------------------------------

// Blocks of a class for a team: as `take_blocks`.
OUTLINE u64 __ringfence_heap_small_blocks(u32 size_class, u32 stride, u32 wanted) {
    u32 kind = size_class + 1, capacity = CHUNK_SIZE / stride;
    u32 slots = capacity >= 32 ? RF_SLOTS : capacity >= 4 ? 8 : 1;
    u32 *active = opaque(CONTROL->active[size_class]);
    u32 *slot = active + spread() % slots;
    u32 current = load(slot);
    if (current) {
        u64 got = __ringfence_heap_take_blocks(current - 1, kind, wanted);
        if (got) return got;
    }
    u64 got = 0;
    u32 chunk;
    ROLLED do {
        chunk = __ringfence_heap_take(size_class, load(&CONTROL->near[size_class]), &CONTROL->partial[size_class]);
        if (chunk == NONE) break;
        got = __ringfence_heap_take_blocks(chunk, kind, wanted);
    } while (!got);
    if (chunk == NONE) {
        chunk = __ringfence_heap_take(RF_MAP_FREE, load(&CONTROL->low), &CONTROL->free_chunks);
        if (chunk != NONE) got = __ringfence_heap_begin(chunk, size_class, stride, wanted);
    }
    if (got) {
        // Whoever was faster has filled the slot; the chunk stays known.
        if (atomicCAS(slot, current, chunk + 1) != current && load(&CHUNK[chunk].count) > 0)
            set_partial(chunk, size_class);
        return got;
    }
    ROLLED for (u32 i = 0; i < slots; i++) {
        u32 other = load(active + i);
        got = other ? __ringfence_heap_take_blocks(other - 1, kind, wanted) : 0;
        if (got) return got;
    }
    return 0;
}

// A block of a class; 0 if there is none. One thread of a team takes what the
// team needs.
INLINE u32 small_block(u32 size_class, u32 stride) {
    ROLLED for (;;) {
        Team team = team_of(size_class);
        u64 got = 0;
        u32 seen = load(&CONTROL->version);
        if (team.leads) got = __ringfence_heap_small_blocks(size_class, stride, team.count);
        u32 first = from_leader(team, (u32)(got >> 32)), bits = from_leader(team, (u32)got);
        u32 own = bits & ~lowest(bits, team.rank);
        if (own) return first + __ffs(own) - 1;
        if (bits == 0 && !__ringfence_heap_make_room(seen, team.mask)) return 0;
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
            return chunk * RF_CHUNK_BLOCKS;
        }
        if (!__ringfence_heap_make_room(seen, 1u << lane())) return 0;
    }
}

// A slot for a block's record. The block's ring is that of its chunk, as
// often is that of a team.
INLINE bool reserve_slot(u32 chunk, u32 *number) {
    u32 which = ring_of(chunk);
    ROLLED for (u32 tries = 0; tries < RF_RECORD_TRIES; tries++) {
        Team team = team_of(which);
        u32 first = 0, got = 0;
        if (team.leads) first = reserve(&WATCH->rings[which], team.count, &got);
        first = from_leader(team, first);
        got = from_leader(team, got);
        *number = first + team.rank;
        if (team.rank < got) return true;
        // Most of the ring has expired: it has more slots than its chunks have
        // blocks. Whoever has the lock sees to it.
        if (team.rank == got && __ringfence_heap_scan(which, 1u << lane(), PART) == BUSY) __nanosleep(500);
    }
    return false;
}

// malloc. `where` is the call: half the module's tag, and the site.
OUTLINE u64 __ringfence_malloc(u64 size, u64 where, u64 launch) {
    if (size >= (u64)chunks() << RF_CHUNK_SHIFT) return 0;
    HeapKeys key = keys();
    bool watched = key.head != 0;
    // At least one byte more: the end of a block is no other block's start.
    u64 need = watched ? watched_size(size) : size + 1;
    u32 handle, stride = 0;
    if (need <= CHUNK_SIZE) {
        u32 size_class = class_of((u32)need, &stride);
        handle = small_block(size_class, stride);
    } else {
        handle = __ringfence_heap_large_block((u32)((need + CHUNK_SIZE - 1) >> RF_CHUNK_SHIFT));
    }
    if (handle == 0) return 0;
    u32 chunk = handle / RF_CHUNK_BLOCKS, block = handle % RF_CHUNK_BLOCKS, number = 0;
    if (watched && !reserve_slot(chunk, &number)) {
        __ringfence_heap_release(handle);
        return 0;
    }
    u64 base = address_of(chunk) + block * stride;
    if (watched) {
        base += HEAD;
        place_canaries(base, size, key);
    }
    ulonglong2 *head = (ulonglong2 *)header(chunk, block);
    head[1] = make_ulonglong2(0, launch & ~REPORTED);
    head[0] = make_ulonglong2((u64)RF_STATE_LIVE << RF_STATE_SHIFT | size, where);
    __threadfence();
    if (watched) publish(ring_of(chunk), load(&WATCH->slots), number, handle);
    return base;
}

// ---- from an address to its block ---------------------------------------

struct Bounds {
    u64 base, size;
};

struct Place {
    u32 chunk, block;
    u64 base;
};

// Bytes before a block's own that hold its canary.
INLINE u64 before_block() { return __ldg(&WATCH->keys.head) != 0 ? HEAD : 0; }

INLINE bool find(u64 pointer, Place *place) {
    u64 offset = pointer - RF_HEAP_BASE;
    if (offset >> RF_CHUNK_SHIFT >= chunks()) return false;
    u32 chunk = (u32)(offset >> RF_CHUNK_SHIFT), block = 0;
    u32 kind = load(&CHUNK[chunk].kind);
    u64 base;
    if (kind - 1 < RF_CLASSES) {
        block = __umulhi((u32)offset & (CHUNK_SIZE - 1), load(&CHUNK[chunk].magic));
        if (block >= load(&CHUNK[chunk].capacity)) return false;
        base = address_of(chunk) + block * load(&CHUNK[chunk].stride);
    } else {
        if (kind == RF_KIND_REST) {
            // A dangling pointer may see a chunk change.
            chunk = load(&CHUNK[chunk].stride);
            if (chunk >= chunks()) return false;
        } else if (kind != RF_KIND_RUN) {
            return false;
        }
        base = address_of(chunk);
    }
    place->chunk = chunk;
    place->block = block;
    place->base = base + before_block();
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
        HeapHeader *head = header(place.chunk, place.block);
        u64 word = load(&head->word), state = word >> RF_STATE_SHIFT;
        size = word & SIZE_MASK;
        if (state != 0 && pointer - place.base <= size) {
            base = place.base;
            verdict = pointer != base ? RF_FREE_INSIDE : RF_FREE_AGAIN;
            HeapKeys key = keys();
            bool watched = key.head != 0;
            u64 freed = (u64)RF_STATE_FREED << RF_STATE_SHIFT | size;
            u64 next = watched ? (u64)RF_STATE_FREEING << RF_STATE_SHIFT | size : freed;
            if (pointer == base && state == RF_STATE_LIVE && atomicCAS(&head->word, word, next) == word) {
                // The free canary carries whatever the head canary had become
                // (equation 3). The program may not free it again meanwhile: it
                // is FREEING.
                if (watched) atomicXor((u64 *)(base - HEAD), key.free);
                store(&head->freed, where);
                store(&head->freed_launch, (u32)launch);
                __threadfence();
                if (watched) {
                    store(&head->word, freed);
                    if (load(&WATCH->freed) == 0) store(&WATCH->freed, 1u);
                } else
                    __ringfence_heap_hold(place.chunk * RF_CHUNK_BLOCKS + place.block);
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
