// Canaries around the blocks of the device heap (GMOD, PACT 2018, sections 4.2,
// 4.4, 4.7 and 4.8), and who verifies them: the guard kernel in each round, the
// check after a launch, and a thread that finds no memory left. What is freed
// is only marked by `free`; who verifies it gives it back.
//
// A block under watch, from its first byte on:
//
//     +0          head canary   size ^ address ^ key             (equation 1)
//                 once freed    size ^ address ^ key ^ free key  (2, made by 3)
//     +8          size ^ key
//     +16         the program's bytes; `address` is that of the first
//     +16 + size  tail canary: the word size ^ address ^ key, at each multiple
//                 of 8, from the byte after the last to a multiple of 16: 16 to
//                 31 bytes
//
// The block's header lies apart, and is what size and state are taken from: a
// head canary that was overwritten neither misleads the scanner nor hides that
// a block is freed twice.

#include "records.cuh"

static const u32 HEAD = RF_BLOCK_HEAD;
// In `allocated_launch`: damage to this block was reported. Only the scanner
// sets it.
static const u32 REPORTED = 1u << 31;

// Bytes of a block with its canaries.
INLINE u64 watched_size(u64 size) { return HEAD + ((size + 31) & ~15ull); }

INLINE HeapKeys keys() {
    const ulonglong2 *at = (const ulonglong2 *)&WATCH->keys;
    ulonglong2 a = __ldg(at), b = __ldg(at + 1);
    HeapKeys keys = {a.x, a.y, b.x, b.y};
    return keys;
}

INLINE u64 word_at(u64 place) { return load((u64 *)place); }

INLINE void place_canaries(u64 address, u64 size, const HeapKeys &keys) {
    u64 mark = size ^ address;
    *(ulonglong2 *)(address - HEAD) = make_ulonglong2(mark ^ keys.head, size ^ keys.size);
    u64 end = address + size, stop = (end + 31) & ~15ull;
    // The program's own bytes in the first word hold nothing yet.
    ROLLED for (u64 at = end & ~7ull; at < stop; at += 8) *(u64 *)at = mark ^ keys.tail;
}

// What is wrong with a canary.
struct Damage {
    u64 lowest, highest, found;
    u32 bytes;
};

// Compares a word of a canary, as it was read, from its byte `from` on.
INLINE void compare(u64 at, u64 found, u64 wanted, u32 from, Damage *damage) {
    u64 wrong = (found ^ wanted) >> (8 * from) << (8 * from);
    if (wrong == 0) return;
    u32 low = (__ffsll(wrong) - 1) / 8, high = (63 - __clzll(wrong)) / 8;
    if (damage->bytes == 0) {
        damage->lowest = at + low;
        damage->found = found >> (8 * low);
    }
    damage->highest = at + high;
    wrong |= wrong >> 4;
    wrong |= wrong >> 2;
    wrong |= wrong >> 1;
    damage->bytes += __popcll(wrong & 0x0101010101010101);
}

// One record of damage, in the ring that checks use. `what` and `side` as
// `layout::records::HEAP_RECORD` has them.
OUTLINE void __ringfence_heap_damage(u64 base, u64 allocated, u64 what, u64 side, u64 found) {
    u64 number = atomicAdd((u64 *)RF_RING_HEAD, 1ull);
    if (number - load((u64 *)RF_RING_TAIL) >= RF_RING_CAPACITY) return;
    u64 *at = (u64 *)(RF_RING_RECORDS + number % RF_RING_CAPACITY * sizeof(Record));
    at[offsetof(Record, module) / 8] = RF_HEAP_RECORD;
    at[offsetof(Record, address) / 8] = base;
    at[offsetof(Record, base) / 8] = allocated;
    at[offsetof(Record, size) / 8] = what;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(at[offsetof(Record, launch) / 8])::"memory");
    at[offsetof(Record, site) / 8] = side;      // and `thread`
    at[offsetof(Record, block_x) / 8] = found;  // and `block_yz`
    __threadfence_system();
    store(at, number + 1);
}

INLINE void report(u64 base, u64 size, u64 allocated, u32 launch, u32 side, const Damage &damage) {
    if (damage.bytes == 0) return;
    u64 start = side == RF_SIDE_BEFORE ? base - HEAD : base + size;
    __ringfence_heap_damage(base, allocated,
                            size | (damage.lowest - start) << 56 | (damage.highest - start) << 48 |
                                (u64)damage.bytes << 40,
                            side | (u64)launch << 32, damage.found);
}

// Verifies the canaries of a recorded block. Whether it was freed: then it is
// for the caller to drop the record, and the block.
OUTLINE bool __ringfence_heap_verify(u32 handle) {
    HeapKeys key = keys();
    u32 chunk = handle / RF_CHUNK_BLOCKS, block = handle % RF_CHUNK_BLOCKS;
    HeapHeader *head = header(chunk, block);
    u32 kind = load(&CHUNK[chunk].kind), stride = load(&CHUNK[chunk].stride);
    u64 word = load(&head->word);
    u32 launch = load(&head->allocated_launch);
    u64 size = word & SIZE_MASK;
    u64 address = (u64)opaque((char *)RF_HEAP_BASE + HEAD);
    address += (u64)opaque((char *)((u64)chunk << RF_CHUNK_SHIFT));
    if (kind != RF_KIND_RUN) address += block * stride;
    // A block that is freed meanwhile is verified as it was.
    __threadfence();
    u64 mark = size ^ address, live = mark ^ key.head;
    if (!(launch & REPORTED)) {
        Damage before = {0, 0, 0, 0}, after = {0, 0, 0, 0};
        u64 first = word_at(address - HEAD);
        if (first != (live ^ key.free)) compare(address - HEAD, first, live, 0, &before);
        compare(address - HEAD + 8, word_at(address - HEAD + 8), size ^ key.size, 0, &before);
        u64 end = address + size, stop = (end + 31) & ~15ull;
        u32 from = (u32)end & 7;
        ROLLED for (u64 at = end & ~7ull; at < stop; at += 8, from = 0)
            compare(at, word_at(at), mark ^ key.tail, from, &after);
        if (before.bytes | after.bytes) {
            store(&head->allocated_launch, launch | REPORTED);
            u64 allocated = load(&head->allocated);
            report(address, size, allocated, launch, RF_SIDE_BEFORE, before);
            report(address, size, allocated, launch, RF_SIDE_AFTER, after);
        }
    }
    return word >> RF_STATE_SHIFT == RF_STATE_FREED;
}

// Verifies what is recorded in a slot. Whether it holds no record any more.
INLINE bool scan_slot(u32 which, u32 slots, u32 number, u32 *given_back) {
    u32 *place = slot(which, slots, number);
    u32 handle = load(place);
    if (handle == EXPIRED) return true;
    if (handle == EMPTY) return false;
    __threadfence();
    if (!__ringfence_heap_verify(handle)) return false;
    store(place, EXPIRED);
    __ringfence_heap_hold(handle);
    *given_back += 1;
    return true;
}

// Slots that a team looks at before it sees whether that was enough, and rings
// of which it looks at so many.
static const u32 PART = 4 * SEGMENT;
static const u32 SHARE = 4;
// What a scan answers: another team is at it; nothing was freed; something was.
static const u32 BUSY = 2, NOTHING = 0, GIVEN_BACK = 1;

// A pass of a team over a ring, or over so many slots of it, from where the
// last such pass ended: verifies every block that is recorded, gives back what
// is freed, and makes slots if there are few. All threads of the team call it
// together.
OUTLINE u32 __ringfence_heap_scan(u32 which, u32 mask, u32 most) {
    Team team = team_by(mask);
    RecordRing *ring = &WATCH->rings[which];
    if (!from_leader(team, team.leads && lock(ring))) return BUSY;
    u32 slots = load(&WATCH->slots), given_back = 0;
    u32 first = from_leader(team, load(&ring->first)), end = from_leader(team, end_of(ring));
    u32 number = from_leader(team, load(&ring->cursor));
    if (most == 0 || end - first <= most || number - first >= end - first) number = first;
    u32 left = most == 0 ? end - number : most;
    ROLLED while (number != end && left != 0) {
        u32 length = end - number < SEGMENT ? end - number : SEGMENT;
        bool expired = true;
        ROLLED for (u32 i = team.rank; i < length; i += team.count)
            if (!scan_slot(which, slots, number + i, &given_back)) expired = false;
        if (__all_sync(mask, expired) && length == SEGMENT && number == first) {
            if (leads_now(team)) __ringfence_records_recycle(which);
            first += SEGMENT;
        }
        number += length;
        left = left < length ? 0 : left - length;
    }
    if (team.leads) {
        store(&ring->cursor, number);
        make_slots(which);
        unlock(ring);
    }
    return __any_sync(mask, given_back != 0) ? GIVEN_BACK : NOTHING;
}

INLINE void tell_given_back(const Team &team) {
    if (team.leads) atomicAdd(&CONTROL->version, 1u);
}

// Gives back what is freed, as the guard would: for a team that finds no
// memory. Whether it is worth looking for some again.
OUTLINE bool __ringfence_heap_collect(u32 mask) {
    Team team = team_by(mask);
    if (__ldg(&WATCH->keys.head) == 0 || !from_leader(team, load(&WATCH->freed))) return false;
    u32 start = from_leader(team, spread());
    ROLLED for (u32 i = 0; i < SHARE; i++)
        if (__ringfence_heap_scan((start + i) % RINGS, mask, PART) == GIVEN_BACK) {
            tell_given_back(team);
            return true;
        }
    // Everything, by one team at a time.
    bool mine = team.leads && load(&WATCH->collecting) == 0 && atomicCAS(&WATCH->collecting, 0u, 1u) == 0;
    if (!from_leader(team, mine)) {
        __nanosleep(1000);
        return true;
    }
    // What is freed from here on is reported anew.
    if (team.leads) store(&WATCH->freed, 0u);
    __threadfence();
    __syncwarp(mask);
    u32 tries = 0, result = NOTHING;
    ROLLED for (u32 i = 0; i < RINGS && result != GIVEN_BACK; i++)
        // Whoever has the ring gives back what is in it.
        ROLLED while ((result = __ringfence_heap_scan((start + i) % RINGS, mask, 0)) == BUSY &&
                      tries++ < RF_RECORD_TRIES)
            __nanosleep(500);
    if (result == GIVEN_BACK) tell_given_back(team);
    if (team.leads) {
        if (result == GIVEN_BACK || tries >= RF_RECORD_TRIES) store(&WATCH->freed, 1u);
        __threadfence();
        store(&WATCH->collecting, 0u);
    }
    __syncwarp(mask);
    return result == GIVEN_BACK;
}

// Slots of each ring that a round looks at: where more are in use, the next
// round goes on there. A round must end soon, for the host may wait for it.
static const u32 ROUND = 16 * SEGMENT;

// A round of a warp, all of whose lanes call it together.
INLINE void scan_blocks(u32 lane) {
    const u32 ALL = ~0u;
    if (load((u64 *)RF_HEAP_CHUNKS_MAPPED) == 0 || load(&WATCH->keys.head) == 0) return;
    RecordRing *own = &WATCH->rings[lane % RINGS];
    u32 used = __ballot_sync(ALL, end_of(own) != load(&own->first)), given_back = 0;
    ROLLED for (; used; used &= used - 1)
        given_back |= __ringfence_heap_scan(__ffs(used) - 1, ALL, ROUND);
    if (given_back & GIVEN_BACK) tell_given_back(team_by(ALL));
}
