//! The words in host memory through which the host and the guard kernel
//! (`device/guard.cu`) communicate while the guard runs, each written by one
//! side only; and a ring of the guard's findings.
//!
//! ```text
//! 0x2100_1000_0000  the host writes:
//!        +0x0000    u64 stop       slices up to this number are to end
//!        +0x0008    u64 slots      slots of the table of canaries in use
//!        +0x0010    u64 consumed   findings that the host has read
//!                   the guard writes:
//!        +0x0080    u64 epoch      rounds begun, over all slices
//!        +0x0088    u64 begun      the slice that runs or ran last
//!        +0x0090    u64 ended      the last slice that has ended
//!        +0x0098    u64 time       %globaltimer when the epoch was written
//!        +0x00a0    u64 found      findings written
//!        +0x00a8    u64 verified   canaries verified, over all slices
//!        +0x1000    GUARD_FINDINGS findings of 128 bytes
//! ```
//!
//! A *slice* is one launch of the guard. Slices are numbered from 1, and follow
//! each other in one stream. A *round* is one walk over the table of canaries;
//! the guard pins the slots as every other reader does (`canary`). A slice that
//! is asked to stop makes one more round, so that it finds everything that
//! kernels wrote before the request.

use super::shared::shared;

/// First byte of the words.
pub const GUARD_CONTROL: u64 = 0x2100_1000_0000;
/// Bytes of the words and the ring, rounded up to the mapping granule.
pub const GUARD_CONTROL_SIZE: u64 = 2 << 20;

/// `u64`, written by the host: slices up to this number end after one more
/// round.
pub const STOP: u64 = 0;
/// `u64`, written by the host: slots of the table of canaries in use.
pub const TABLE_SLOTS: u64 = 8;
/// `u64`, written by the host: findings it has read.
pub const CONSUMED: u64 = 16;
/// `u64`, written by the guard: rounds begun.
pub const EPOCH: u64 = 0x80;
/// `u64`, written by the guard: the slice that began last.
pub const BEGUN: u64 = 0x88;
/// `u64`, written by the guard: the slice that ended last.
pub const ENDED: u64 = 0x90;
/// `u64`, written by the guard: nanoseconds of `%globaltimer` at the epoch.
pub const TIME: u64 = 0x98;
/// `u64`, written by the guard: findings written.
pub const FOUND: u64 = 0xa0;
/// `u64`, written by the guard: canaries verified.
pub const VERIFIED: u64 = 0xa8;
/// First finding.
pub const FINDINGS: u64 = 0x1000;
/// Findings in the ring; a power of two. If the ring is full, a changed canary
/// is not repaired, and a later round finds it again.
pub const GUARD_FINDINGS: u64 = 1 << 10;

/// Side of a [`GuardFinding`]: the canary before the buffer.
pub const SIDE_BEFORE: u64 = 0;
/// Side of a [`GuardFinding`]: the canary after the buffer.
pub const SIDE_AFTER: u64 = 1;

shared! {
/// A canary that was found changed. Only one warp writes, so the ring needs no
/// atomics: the finding is written, then, after a fence, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GuardFinding {
    /// Number of the finding, from 1, once it is complete.
    pub sequence: u64,
    /// First byte of the buffer.
    pub base: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Serial of the allocation.
    pub serial: u64,
    /// [`SIDE_BEFORE`] or [`SIDE_AFTER`].
    pub side: u64,
    /// The lowest changed byte.
    pub lowest: u64,
    /// The highest changed byte.
    pub highest: u64,
    /// How many bytes were changed.
    pub changed: u64,
    /// 16 bytes from `lowest` on.
    pub content: [u64; 2],
    /// Nanoseconds of `%globaltimer` when it was found.
    pub time: u64,
    /// The round in which it was found.
    pub epoch: u64,
    /// Zero.
    pub reserved: [u64; 4],
}
}

shared! {
/// Parameters of the guard kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GuardParameters {
    /// Number of the slice.
    pub slice: u64,
    /// Only buffers of this context are read.
    pub context: u64,
    /// Nanoseconds after which the slice ends by itself.
    pub nanoseconds: u64,
    /// Nanoseconds of sleep after a round.
    pub pause: u64,
}
}

const _: () = {
    assert!(size_of::<GuardFinding>() == 128);
    assert!(size_of::<GuardParameters>() == 32);
    assert!(GUARD_FINDINGS.is_power_of_two());
    assert!(FINDINGS + GUARD_FINDINGS * 128 <= GUARD_CONTROL_SIZE);
    assert!(super::RING_BASE + super::RING_SIZE <= GUARD_CONTROL);
    assert!(GUARD_CONTROL + GUARD_CONTROL_SIZE <= super::heap::HEAP_BASE);
};
