// Canaries around the buffers that the host allocates: how a warp reads the
// table of them (`model::layout::canary`), verifies canaries, tells of what it
// finds and mends it.
//
// A warp pins a slot before it believes its record, and unpins it when it has
// read what it names: see the layout for why that suffices.

#pragma once

#include "layout.cuh"

#define INLINE static __device__ __forceinline__
#define WHOLE_WARP 0xffffffffu

// What is wrong with one canary: distances from its lowest byte.
struct Changed {
    u32 lowest, highest, count;
    u64 content[2];
};

enum Side { BEFORE = RF_SIDE_BEFORE, AFTER = RF_SIDE_AFTER };

#define CANARY_TABLE ((CanaryRecord *)RF_CANARY_TABLE)
#define CANARY_PINS ((u32 *)RF_CANARY_PINS)

// Other threads change what is read: never from the first-level cache.
INLINE u64 load_now(const u64 *place) { return *(const volatile u64 *)place; }
INLINE void load_now(u64 place, u64 *low, u64 *high) {
    asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];" : "=l"(*low), "=l"(*high) : "l"(place));
}
INLINE void full_fence() { asm volatile("fence.sc.gpu;" ::: "memory"); }

// Reads a record piece by piece: whether it is whole, its checksum says.
INLINE void load_record(u64 place, CanaryRecord *record) {
    u64 lengths;
    load_now(place + offsetof(CanaryRecord, base), &record->base, &record->size);
    load_now(place + offsetof(CanaryRecord, serial), &record->serial, &lengths);
    load_now(place + offsetof(CanaryRecord, pattern), &record->pattern[0], &record->pattern[1]);
    load_now(place + offsetof(CanaryRecord, context), &record->context, &record->check);
    record->before = (u32)lengths;
    record->after = (u32)(lengths >> 32);
}

// Reads the record of a slot, if there is one, it is whole, and it is of this
// context. All lanes get the same answer.
INLINE bool read_record(u32 slot, u64 context, CanaryRecord *record) {
    load_record((u64)(CANARY_TABLE + slot), record);
    bool good = record->check == checksum(*record) && record->context == context;
    return __all_sync(WHOLE_WARP, good);
}

// From here to `unpin` the memory of the slot's record stays.
INLINE void pin(u32 slot, u32 lane) {
    if (lane == 0) {
        atomicAdd(CANARY_PINS + slot, 1);
        full_fence();
    }
    __syncwarp();
}

INLINE void unpin(u32 slot, u32 lane) {
    __syncwarp();
    if (lane == 0) {
        full_fence();
        atomicSub(CANARY_PINS + slot, 1);
    }
}

// 16-byte pieces of both canaries. The first of the tail may begin inside the
// buffer.
INLINE u32 head_pieces(const CanaryRecord &record) { return record.before / 16; }
INLINE u64 tail_start(const CanaryRecord &record) { return record.base + record.size; }
INLINE u32 tail_pieces(const CanaryRecord &record) {
    u64 start = tail_start(record);
    return (u32)((start + record.after - (start & ~15ull)) / 16);
}

// Whether both canaries are whole, as far as this warp, `part` of `parts`, has
// looked. Each lane has `DEPTH` loads under way.
template <u32 DEPTH = 4>
INLINE bool intact(const CanaryRecord &record, u32 part, u32 parts, u32 lane) {
    u32 head = head_pieces(record), all = head + tail_pieces(record);
    u64 first = record.base - record.before, tail = tail_start(record) & ~15ull;
    u32 skip = (u32)(tail_start(record) & 15) * 8;
    u32 step = parts * 32;
    u64 wrong = 0;
    for (u32 at = part * 32 + lane; at < all; at += DEPTH * step) {
        u64 low[DEPTH], high[DEPTH];
        // All are under way before the first is looked at.
#pragma unroll
        for (u32 k = 0; k < DEPTH; k++) {
            u32 piece = at + k * step;
            low[k] = record.pattern[0];
            high[k] = record.pattern[1];
            if (piece < all)
                load_now(piece < head ? first + 16ull * piece : tail + 16ull * (piece - head), &low[k], &high[k]);
        }
#pragma unroll
        for (u32 k = 0; k < DEPTH; k++) {
            u64 difference[2] = {low[k] ^ record.pattern[0], high[k] ^ record.pattern[1]};
            if (at + k * step == head && skip != 0) {
                if (skip >= 64) {
                    difference[0] = 0;
                    difference[1] >>= skip - 64;
                } else {
                    difference[0] >>= skip;
                }
            }
            wrong |= difference[0] | difference[1];
        }
    }
    return !__any_sync(WHOLE_WARP, wrong != 0);
}

INLINE unsigned char expected(const CanaryRecord &record, u64 address) {
    return (unsigned char)(record.pattern[(address >> 3) & 1] >> (address & 7) * 8);
}

INLINE u64 canary_start(const CanaryRecord &record, u32 side) {
    return side == BEFORE ? record.base - record.before : tail_start(record);
}

INLINE u32 canary_length(const CanaryRecord &record, u32 side) {
    return side == BEFORE ? record.before : record.after;
}

// Looks at one canary byte by byte. Whether anything is wrong with it.
INLINE bool inspect(const CanaryRecord &record, u32 side, u32 lane, Changed *changed) {
    u64 start = canary_start(record, side);
    u32 length = canary_length(record, side);
    u32 lowest = ~0u, highest = 0, count = 0;
#pragma unroll 1
    for (u32 at = lane; at < length; at += 32) {
        if (*(const volatile unsigned char *)(start + at) == expected(record, start + at)) continue;
        lowest = min(lowest, at);
        highest = max(highest, at);
        count++;
    }
#pragma unroll 1
    for (u32 distance = 16; distance != 0; distance /= 2) {
        lowest = min(lowest, __shfl_xor_sync(WHOLE_WARP, lowest, distance));
        highest = max(highest, __shfl_xor_sync(WHOLE_WARP, highest, distance));
        count += __shfl_xor_sync(WHOLE_WARP, count, distance);
    }
    changed->lowest = lowest;
    changed->highest = highest;
    changed->count = count;
    changed->content[0] = changed->content[1] = 0;
    if (count == 0) return false;
    u32 last = min(highest, lowest + 15);
#pragma unroll 1
    for (u32 at = lowest; at <= last; at++) {
        u32 byte = at - lowest;
        u64 value = *(const volatile unsigned char *)(start + at);
        changed->content[byte / 8] |= value << byte % 8 * 8;
    }
    return true;
}

// Makes one canary what it is to be.
INLINE void mend(const CanaryRecord &record, u32 side, u32 lane, u32 lanes) {
    u64 start = canary_start(record, side);
    u64 end = start + canary_length(record, side);
    u64 whole = min((start + 15) & ~15ull, end);
    if (start + lane < whole)
        *(volatile unsigned char *)(start + lane) = expected(record, start + lane);
#pragma unroll 1
    for (u64 at = whole + 16ull * lane; at < end; at += 16ull * lanes)
        asm volatile("st.volatile.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(record.pattern[0]), "l"(record.pattern[1])
                     : "memory");
}

// Whether this warp is the one that tells of a slot's canaries. The slot is
// pinned.
INLINE bool claim(u32 slot, u32 lane) {
    u32 old = 0;
    if (lane == 0) {
        old = atomicOr(CANARY_PINS + slot, RF_CANARY_CLAIMED);
        full_fence();
    }
    old = __shfl_sync(WHOLE_WARP, old, 0);
    return (old & RF_CANARY_CLAIMED) == 0;
}

INLINE void unclaim(u32 slot, u32 lane) {
    __syncwarp();
    if (lane == 0) {
        full_fence();
        atomicAnd(CANARY_PINS + slot, ~RF_CANARY_CLAIMED);
    }
}
