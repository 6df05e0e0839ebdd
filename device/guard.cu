// The guard: one warp that stays on the device beside the program's kernels
// and verifies the canaries around the program's buffers while they run
// (GMOD, section 4.1). `cargo xtask generate` compiles this file to
// `crates/runtime/src/device/guard.ptx`; the protocol with the host is that of
// `model::layout::guard`.
//
// A slice (one launch) is a sequence of rounds:
//
//     begun = slice
//     loop:
//         epoch = epoch + 1
//         read stop, slots, consumed     -- the host's words
//         last = stop >= slice, or the slice's time is over
//         walk over the table            -- also in the last round: what was
//                                           written before the stop is found
//         walk over the device heap      -- (heap_guard.cuh)
//         if last: break
//         sleep
//     epoch = epoch + 1; ended = slice
//
// The guard writes to memory of the program in one case only: a canary that it
// found changed, and has reported, is made what it was.

#include "canary.cuh"
#include "heap.cuh"
#include "heap_guard.cuh"

// Slots that are pinned together: a fence costs as much as reading several
// records.
static const u32 BATCH = 64;
// Lanes that share one record in the walk, and records that each has loads
// under way for: a walk costs latency, not bandwidth.
static const u32 TEAM = 8;
static const u32 TEAMS = 32 / TEAM;
static const u32 FLIGHT = 4;
static const u32 PIECE = 16;
// Canaries longer than this are read by the whole warp, one record after the
// other, with so many loads of each lane under way.
static const u32 LONG = 512;
static const u32 DEPTH = 16;

struct Round {
    u64 context, epoch, slots, consumed;
};

// What the guard counts over all slices.
struct Counts {
    u64 found, verified;
};

INLINE u64 host_word(u64 offset) { return load_now((const u64 *)(RF_GUARD_CONTROL + offset)); }
INLINE void tell_host(u64 offset, u64 value) { *(volatile u64 *)(RF_GUARD_CONTROL + offset) = value; }
INLINE void system_fence() { asm volatile("fence.sc.sys;" ::: "memory"); }
INLINE u64 now() {
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time)::"memory");
    return time;
}

// One lane tells the host of one canary.
INLINE void tell(const CanaryRecord &record, u32 side, const Changed &changed, const Round &round, u64 time,
                 u64 found) {
    u64 start = canary_start(record, side);
    const u64 words[11] = {record.base,    record.size,        record.serial,      side,  start + changed.lowest,
                           start + changed.highest, changed.count, changed.content[0], changed.content[1],
                           time,           round.epoch};
    static_assert(offsetof(GuardFinding, epoch) == 11 * sizeof(u64), "the words are the fields after the first");
    volatile u64 *place =
        (volatile u64 *)(RF_GUARD_CONTROL + RF_FINDINGS + found % RF_GUARD_FINDINGS * sizeof(GuardFinding));
    for (u32 i = 0; i < 11; i++) place[i + 1] = words[i];
    system_fence();
    place[0] = found + 1;
    tell_host(RF_FOUND, found + 1);
}

// The whole warp looks at one pinned slot of which something was changed. With
// no room in the ring it is left for a later round.
OUTLINE u64 __ringfence_guard_report(u32 slot, Round round, u64 found, u32 lane) {
    // Looking at every byte takes longer than finding that one is wrong.
    const u64 time = now();
    CanaryRecord record;
    if (!read_record(slot, round.context, &record) || !claim(slot, lane)) return found;
    for (u32 side = BEFORE; side <= AFTER; side++) {
        Changed changed;
        if (found - round.consumed >= RF_GUARD_FINDINGS) break;
        if (!inspect(record, side, lane, &changed)) continue;
        __syncwarp();
        if (lane == 0) tell(record, side, changed, round, time, found);
        found++;
        mend(record, side, lane, 32);
    }
    unclaim(slot, lane);
    return found;
}

// The bits of eight bytes from `place` on that lie in [start, end).
INLINE u64 bits_within(u64 place, u64 start, u64 end) {
    u64 bits = ~0ull;
    if (place < start) bits = place + 8 <= start ? 0 : bits << (start - place) * 8;
    if (place + 8 > end) bits &= place >= end ? 0 : ~0ull >> (place + 8 - end) * 8;
    return bits;
}

INLINE bool is_long(const CanaryRecord &record) { return max(record.before, record.after) > LONG; }

INLINE u64 of_lane(u64 value, u32 lane) { return __shfl_sync(WHOLE_WARP, value, lane); }

// Pinned slots with long canaries, of 32 slots.
INLINE void verify_long(u64 first, const Round &round, u32 lane, Counts *counts) {
    const u64 slot = first + lane;
    CanaryRecord mine;
    load_record((u64)(CANARY_TABLE + (slot < round.slots ? slot : 0)), &mine);
    const u64 lengths = (u64)mine.before | (u64)mine.after << 32;
    bool good = slot < round.slots && mine.context == round.context && is_long(mine) && mine.check == checksum(mine);
    if (good) counts->verified++;
    u32 left = __ballot_sync(WHOLE_WARP, good);
    while (left != 0) {
        u32 from = __ffs(left) - 1;
        left &= left - 1;
        CanaryRecord record;
        record.base = of_lane(mine.base, from);
        record.size = of_lane(mine.size, from);
        u64 both = of_lane(lengths, from);
        record.before = (u32)both;
        record.after = (u32)(both >> 32);
        record.pattern[0] = of_lane(mine.pattern[0], from);
        record.pattern[1] = of_lane(mine.pattern[1], from);
        if (!intact<DEPTH>(record, 0, 1, lane))
            counts->found = __ringfence_guard_report((u32)(first + from), round, counts->found, lane);
    }
}

// Pinned slots with short canaries, a few for each team: which of them this
// lane saw changed, as bits.
INLINE u32 changed_slots(u64 first, const Round &round, u32 lane, u64 *verified) {
    const u32 team = lane / TEAM, member = lane % TEAM;
    CanaryRecord records[FLIGHT];
    u32 wrong = 0;
    u64 longest = 0;
#pragma unroll
    for (u32 i = 0; i < FLIGHT; i++) {
        u64 slot = first + i * TEAMS + team;
        // Every lane loads, so that all loads are under way together.
        load_record((u64)(CANARY_TABLE + (slot < round.slots ? slot : 0)), &records[i]);
    }
#pragma unroll
    for (u32 i = 0; i < FLIGHT; i++) {
        u64 slot = first + i * TEAMS + team;
        bool good = slot < round.slots && records[i].context == round.context && !is_long(records[i]) &&
                    records[i].check == checksum(records[i]);
        if (!good) {
            records[i].before = records[i].after = 0;
            continue;
        }
        if (member == 0) ++*verified;
        u64 most = max(records[i].before, records[i].after);
        longest = max(longest, most);
    }
    // With one piece more for ends that are not aligned.
    for (u64 done = 0; __any_sync(WHOLE_WARP, longest != 0 && done < longest + PIECE); done += TEAM * PIECE) {
        u64 low[FLIGHT][2], high[FLIGHT][2];
#pragma unroll
        for (u32 i = 0; i < FLIGHT; i++)
#pragma unroll
            for (u32 side = BEFORE; side <= AFTER; side++) {
                u64 start = canary_start(records[i], side), end = start + canary_length(records[i], side);
                u64 place = (start & ~(u64)(PIECE - 1)) + done + member * PIECE;
                // Past the end, something that can always be read.
                load_now(place < end ? place : RF_CANARY_TABLE, &low[i][side], &high[i][side]);
            }
#pragma unroll
        for (u32 i = 0; i < FLIGHT; i++)
#pragma unroll
            for (u32 side = BEFORE; side <= AFTER; side++) {
                u64 start = canary_start(records[i], side), end = start + canary_length(records[i], side);
                u64 place = (start & ~(u64)(PIECE - 1)) + done + member * PIECE;
                u64 bits = (low[i][side] ^ records[i].pattern[0]) & bits_within(place, start, end);
                bits |= (high[i][side] ^ records[i].pattern[1]) & bits_within(place + 8, start, end);
                if (place < end && bits != 0) wrong |= 1u << i;
            }
    }
    return wrong;
}

// One walk over the table.
INLINE void walk(const Round &round, u32 lane, Counts *counts) {
    for (u64 batch = 0; batch < round.slots; batch += BATCH) {
        u64 end = min(batch + BATCH, round.slots);
        for (u64 slot = batch + lane; slot < end; slot += 32) atomicAdd(CANARY_PINS + slot, 1);
        full_fence();
        __syncwarp();
        for (u64 first = batch; first < end; first += 32) verify_long(first, round, lane, counts);
        for (u64 first = batch; first < end; first += TEAMS * FLIGHT) {
            u32 wrong = changed_slots(first, round, lane, &counts->verified);
            for (u32 i = 0; i < FLIGHT; i++) {
                u32 lanes = __ballot_sync(WHOLE_WARP, wrong >> i & 1);
                for (u32 team = 0; team < TEAMS; team++)
                    if (lanes >> team * TEAM & ((1u << TEAM) - 1))
                        counts->found = __ringfence_guard_report((u32)(first + i * TEAMS + team), round, counts->found, lane);
            }
        }
        __syncwarp();
        full_fence();
        for (u64 slot = batch + lane; slot < end; slot += 32) atomicSub(CANARY_PINS + slot, 1);
    }
}

extern "C" __global__ void __launch_bounds__(32, 1) __ringfence_guard(const GuardParameters parameters) {
    const u32 lane = threadIdx.x;
    const u64 start = now();
    Round round = {parameters.context, host_word(RF_EPOCH), 0, 0};
    Counts counts = {host_word(RF_FOUND), lane == 0 ? host_word(RF_VERIFIED) : 0};
    __syncwarp();
    if (lane == 0) tell_host(RF_BEGUN, parameters.slice);
    while (true) {
        const u64 time = now();
        round.epoch++;
        if (lane == 0) {
            tell_host(RF_TIME, time);
            tell_host(RF_EPOCH, round.epoch);
        }
        // One load of the warp: the words lie side by side.
        const u64 word = host_word(lane < 3 ? lane * 8 : 0);
        const u64 stop = __shfl_sync(WHOLE_WARP, word, RF_STOP / 8);
        round.slots = __shfl_sync(WHOLE_WARP, word, RF_TABLE_SLOTS / 8);
        round.consumed = __shfl_sync(WHOLE_WARP, word, RF_CONSUMED / 8);
        const u64 elapsed = __shfl_sync(WHOLE_WARP, time - start, 0);
        // What was written before the stop is seen by what is read after it.
        system_fence();
        walk(round, lane, &counts);
        scan_blocks(lane);
        if (stop >= parameters.slice || elapsed >= parameters.nanoseconds) break;
        __nanosleep((u32)parameters.pause);
    }
    for (u32 step = 16; step != 0; step /= 2)
        counts.verified += __shfl_xor_sync(WHOLE_WARP, counts.verified, step);
    __syncwarp();
    if (lane == 0) {
        tell_host(RF_VERIFIED, counts.verified);
        tell_host(RF_EPOCH, round.epoch + 1);
        system_fence();
        tell_host(RF_ENDED, parameters.slice);
    }
}
