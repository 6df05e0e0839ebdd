// Verifies canaries in stream order, after kernels of the program, and makes
// those of memory that is allocated in stream order. `cargo xtask generate`
// compiles this file to `crates/runtime/src/device/canary.ptx` and
// `canary_sm_90.ptx`.
//
// A check reads the table when it runs, not when it was launched: what the
// program has freed meanwhile is not there any more, and what lies there now
// is verified by its own record.
//
// On devices from sm_90 on, which get a text of their own, a check is launched
// with programmatic stream serialization: its blocks may be there before the
// kernel before it has ended, and wait themselves. So
// * nothing reads memory before `wait_for_what_is_before`, and every thread
//   goes through it: a block ends only when what was before the check in its
//   stream has ended, and all that it wrote is to be seen;
// * a check never tells the device that kernels after it may start
//   (griddepcontrol.launch_dependents). One of the program's that was launched
//   to start early therefore starts when all blocks of the check have ended,
//   and what was before the check has ended by then: no earlier than behind a
//   check that is launched plainly. If it waits itself, it waits for the
//   check, and so still for the program's kernel before it.
// * A kernel of the program that was itself started early, and never waits, may
//   end before the one before it; such a wait sees to the last kernel only. So
//   no check is launched that way once the program has used it
//   (`Runtime::kernels_start_early`), nor is one that empties slots.

#include "canary.cuh"

INLINE u64 now() {
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

INLINE void wait_for_what_is_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// One lane tells the host of one canary (protocol: `model::layout::Record`).
INLINE void tell(const CanaryRecord &record, u32 side, const Changed &changed, u64 check) {
    u64 number = atomicAdd((u64 *)RF_RING_HEAD, 1ull);
    if (number - load_now((const u64 *)RF_RING_TAIL) >= RF_RING_CAPACITY) return;
    Record *place = (Record *)RF_RING_RECORDS + number % RF_RING_CAPACITY;
    place->module = RF_CANARY_RECORD;
    place->address = record.serial;
    place->base = changed.content[0];
    place->size = changed.content[1];
    place->launch = check;
    place->site = side;
    place->thread = changed.lowest;
    place->block_x = changed.highest;
    place->block_yz = changed.count;
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(&place->sequence), "l"(number + 1) : "memory");
}

// One warp's part of a slot.
INLINE void verify(u32 slot, u64 context, u32 part, u32 parts, u32 lane, u64 check) {
    CanaryRecord record;
    pin(slot, lane);
    if (read_record(slot, context, &record) && !intact(record, part, parts, lane) && claim(slot, lane)) {
        for (u32 side = BEFORE; side <= AFTER; side++) {
            Changed changed;
            if (!inspect(record, side, lane, &changed)) continue;
            __syncwarp();
            if (lane == 0) tell(record, side, changed, check);
            mend(record, side, lane, 32);
        }
        unclaim(slot, lane);
    }
    unpin(slot, lane);
}

// Takes a record out of the table; nobody reads what it names afterwards.
INLINE void retire(u32 slot) {
    atomicExch((u64 *)&CANARY_TABLE[slot].check, 0ull);
    full_fence();
    while (*(volatile u32 *)(CANARY_PINS + slot) != 0) {
    }
}

extern "C" __global__ void __launch_bounds__(256) ringfence_canary_check(const CheckParameters request) {
    wait_for_what_is_before();
    u32 lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    CheckStamp *stamp = (CheckStamp *)RF_CHECK_STAMPS + request.check % RF_STAMPS;
    if (blockIdx.x == 0 && threadIdx.x == 0) *(volatile u64 *)&stamp->begun = now();
    if (request.count <= gridDim.x) {
        // A block for each slot.
        u32 at = blockIdx.x;
        if (at < request.count) {
            u32 slot = request.first == RF_SLOTS_NAMED ? request.slots[at % RF_NAMED_SLOTS] : request.first + at;
            verify(slot, request.context, warp, warps, lane, request.check);
            __syncthreads();
            if (request.retire && threadIdx.x == 0) retire(slot);
        }
    } else {
        for (u32 at = blockIdx.x * warps + warp; at < request.count; at += gridDim.x * warps)
            verify(request.first + at, request.context, 0, 1, lane, request.check);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 *blocks = (u32 *)RF_CHECK_BLOCKS + request.check % RF_STAMPS;
        full_fence();
        if (atomicAdd(blocks, 1) == gridDim.x - 1) {
            *blocks = 0;
            *(volatile u64 *)&stamp->ended = now();
            asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(&stamp->check), "l"(request.check) : "memory");
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) ringfence_canary_fill(const FillParameters fill) {
    mend(fill.record, BEFORE, threadIdx.x, blockDim.x);
    mend(fill.record, AFTER, threadIdx.x, blockDim.x);
    full_fence();
    __syncthreads();
    if (threadIdx.x != 0) return;
    volatile u64 *from = (volatile u64 *)&fill.record;
    volatile u64 *to = (volatile u64 *)(CANARY_TABLE + fill.slot);
    const u32 check = offsetof(CanaryRecord, check) / 8;
    for (u32 word = 0; word < check; word++) to[word] = from[word];
    full_fence();
    to[check] = from[check];
}
