// Lock-free records of the device heap's live blocks, for who verifies their
// canaries: 32 rings, a block in that of its chunk. The protocol, state by
// state, and why it holds: docs/watch-records.md; the same protocol on the
// host, model-checked: crates/heap/src/records.rs. Change both together.
//
// A ring's slots are numbered without end, modulo 2^32, and lie at their number
// modulo the ring's length. The word of a ring holds, in its upper half, how
// many slots were handed out and, in its lower half, the number at which that
// ends. One atomic addition hands out slots and says whether they are open.

// All of a ring but its word belongs to who holds its lock: the scanner.

// Slots are taken back by the segment.
static const u32 SEGMENT = RF_RECORD_SEGMENT;
static const u32 EMPTY = 0;    // handed out or not, nothing written yet
static const u32 EXPIRED = 1;  // no handle: chunk 0 holds no blocks
static const u32 RINGS = RF_RECORD_RINGS;

#define WATCH ((HeapWatch *)RF_HEAP_WATCH)
#define RECORDS ((u32 *)RF_HEAP_RECORDS)

INLINE u32 ring_of(u32 chunk) { return chunk % RINGS; }
INLINE u32 *slot(u32 ring, u32 slots, u32 number) {
    return RECORDS + (u64)ring * slots + (number & (slots - 1));
}
INLINE u32 handed_out(u64 word) { return (u32)(word >> 32); }
INLINE u32 limit(u64 word) { return (u32)word; }
INLINE int room(u64 word) { return (int)(limit(word) - handed_out(word)); }

// Hands out up to `count` slots: the first, and how many. Whoever gets fewer
// has taken numbers past the limit, of which no one else is notified: the scanner
// puts the count back to the limit when it raises that.
INLINE u32 reserve(RecordRing *ring, u32 count, u32 *got) {
    *got = 0;
    if (room(load(&ring->word)) <= 0) return 0;
    u64 word = atomicAdd(&ring->word, (u64)count << 32);
    int left = room(word);
    if (left > 0) *got = left < (int)count ? left : count;
    return handed_out(word);
}

// Makes a record seen, once a fence has made seen what it stands for. The
// fence also orders the store after the emptying of the slot.
INLINE void publish(u32 ring, u32 slots, u32 number, u32 handle) {
    store(slot(ring, slots, number), handle);
}

// ---- only under the ring's lock ------------------------------------------

INLINE bool lock(RecordRing *ring) {
    if (load(&ring->lock) != 0 || atomicCAS(&ring->lock, 0u, 1u) != 0) return false;
    __threadfence();
    return true;
}

INLINE void unlock(RecordRing *ring) {
    __threadfence();
    store(&ring->lock, 0u);
}

// The end of the slots that were handed out.
INLINE u32 end_of(RecordRing *ring) {
    u64 word = load(&ring->word);
    return room(word) < 0 ? limit(word) : handed_out(word);
}

// The first segment's records have all expired: its slots may be handed out
// once more.
OUTLINE void __ringfence_records_recycle(u32 which) {
    RecordRing *ring = &WATCH->rings[which];
    u32 slots = load(&WATCH->slots), first = load(&ring->first);
    ROLLED for (u32 i = 0; i < SEGMENT; i++) store(slot(which, slots, first + i), EMPTY);
    first += SEGMENT;
    store(&ring->first, first);
    __threadfence();
    u64 word = load(&ring->word);
    ROLLED for (;;) {
        u32 taken = room(word) < 0 ? limit(word) : handed_out(word);
        u64 before = atomicCAS(&ring->word, word, (u64)taken << 32 | (u32)(first + slots));
        if (before == word) break;
        word = before;
    }
}

// Moves the first segment's records into slots of later ones whose records
// have expired, so that it can be taken back. Needs no slot that is not the
// scanner's own. Whether it could.
OUTLINE bool __ringfence_records_compact(u32 which) {
    RecordRing *ring = &WATCH->rings[which];
    u32 slots = load(&WATCH->slots), first = load(&ring->first), end = end_of(ring);
    if (end - first < 2 * SEGMENT) return false;
    u32 hole = first + SEGMENT;
    ROLLED for (u32 i = 0; i < SEGMENT; i++) {
        u32 *from = slot(which, slots, first + i);
        u32 handle = load(from);
        if (handle == EXPIRED) continue;
        if (handle == EMPTY) return false;
        ROLLED while (hole != end && load(slot(which, slots, hole)) != EXPIRED) hole++;
        if (hole == end) return false;
        store(slot(which, slots, hole), handle);
        store(from, EXPIRED);
    }
    __ringfence_records_recycle(which);
    return true;
}

// Keeps a fifth of the ring open.
INLINE void make_slots(u32 which) {
    RecordRing *ring = &WATCH->rings[which];
    int wanted = (int)(load(&WATCH->slots) / 5);
    ROLLED for (u32 i = 0; i < 8 && room(load(&ring->word)) < wanted; i++)
        if (!__ringfence_records_compact(which)) break;
}
