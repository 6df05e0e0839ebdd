//! Records of the device heap's live blocks, from which their canaries are
//! verified (`device/records.cuh`, `docs/watch-records.md`), and other data for
//! watching the heap. All of it is beside the heap's other metadata, and zero
//! initially.
//!
//! ```text
//! 0x2030_0010_0000  HeapWatch
//! 0x2080_0000_0000  RECORD_RINGS rings of HeapWatch::slots records of 4 bytes:
//!                   0 (nothing yet), 1 (expired) or a block's handle
//! ```

use super::heap::{CHUNK_BLOCKS, CHUNKS, HEAP_CONTROL, HEAP_CONTROL_SIZE, HEAP_HEADERS};
use super::heap::{HeapControl, HeapHeader};
use super::shared::shared;

/// [`HeapWatch`].
pub const HEAP_WATCH: u64 = HEAP_CONTROL + (1 << 20);
/// `u32[RECORD_RINGS][HeapWatch::slots]`.
pub const HEAP_RECORDS: u64 = 0x2080_0000_0000;
/// Rings of records; a block's is its chunk modulo this.
pub const RECORD_RINGS: u32 = 32;
/// Slots that are reclaimed at a time.
pub const RECORD_SEGMENT: u32 = 256;
/// How often a thread that needs a slot, or a ring that another works on, tries
/// again before it finds no memory: half a second and more.
pub const RECORD_TRIES: u32 = 1 << 20;
/// Bytes of a block before the program's own: head canary, encrypted size.
pub const BLOCK_HEAD: u64 = 16;

/// `module` of a [`super::Record`] that reports a block with an overwritten
/// canary: `address` is the block's, `base` the call that allocated it (as in
/// [`HeapHeader::allocated`]), `thread` the launch, `site` the side
/// ([`super::guard::SIDE_BEFORE`] or [`super::guard::SIDE_AFTER`]), `launch`
/// nanoseconds of `%globaltimer`, `block_x` and `block_yz` the eight bytes
/// found from the lowest changed one on; `size` is [`Damage`]. (A module's tag
/// is never that small.)
pub const HEAP_RECORD: u64 = 1;

/// The `size` of such a record: the block's size in the lower 40 bits, then, in
/// eight bits each, how many bytes were changed, and how far the last and the
/// first are from the canary's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Bytes of the block.
    pub size: u64,
    /// How many bytes of the canary were changed.
    pub bytes: u64,
    /// From the first byte of the canary to the highest changed one.
    pub highest: u64,
    /// From the first byte of the canary to the lowest changed one.
    pub lowest: u64,
}

impl From<u64> for Damage {
    fn from(bits: u64) -> Damage {
        Damage {
            size: bits & ((1 << 40) - 1),
            bytes: bits >> 40 & 0xff,
            highest: bits >> 48 & 0xff,
            lowest: bits >> 56,
        }
    }
}

shared! {
/// Secret numbers that canaries are made with (GMOD, PACT 2018, equations 1 to
/// 3), random for each process. `head` is 0 while nothing is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HeapKeys {
    /// Of the head canary.
    pub head: u64,
    /// Of the tail canary.
    pub tail: u64,
    /// Of the size before the block.
    pub size: u64,
    /// Of the free canary.
    pub free: u64,
}
}

shared! {
/// One ring of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RecordRing {
    /// Slots handed out so far in the upper half, where that ends in the lower,
    /// both modulo 2^32.
    pub word: u64,
    /// 1 while a thread walks over the ring.
    pub lock: u32,
    /// The oldest slot that was not reclaimed.
    pub first: u32,
    /// The slot at which a thread that walks over a part continues.
    pub cursor: u32,
    /// Zero.
    pub reserved: [u32; 27],
}
}

shared! {
/// How the heap is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapWatch {
    /// Keys of canaries.
    pub keys: HeapKeys,
    /// Slots of each ring: a power of two, more than its chunks have blocks.
    pub slots: u32,
    /// Something was freed since all rings were last gone through.
    pub freed: u32,
    /// 1 while a thread walks over all rings.
    pub collecting: u32,
    /// Zero.
    pub reserved: [u32; 21],
    /// The rings.
    pub rings: [RecordRing; RECORD_RINGS as usize],
}
}

/// Slots of each ring for a heap of so many chunks: every block can have a
/// record, and a segment more of them can have expired; a power of two.
pub const fn record_slots(chunks: u64) -> u64 {
    let blocks = chunks.div_ceil(RECORD_RINGS as u64) * CHUNK_BLOCKS;
    let wanted = blocks + blocks / 8 + 2 * RECORD_SEGMENT as u64;
    wanted.next_power_of_two()
}

const _: () = {
    assert!(size_of::<RecordRing>() == 128);
    assert!(size_of::<HeapWatch>() == 128 + RECORD_RINGS as usize * 128);
    assert!(HEAP_CONTROL + size_of::<HeapControl>() as u64 <= HEAP_WATCH);
    assert!(HEAP_WATCH + size_of::<HeapWatch>() as u64 <= HEAP_CONTROL + HEAP_CONTROL_SIZE);
    assert!(HEAP_HEADERS + CHUNKS * CHUNK_BLOCKS * size_of::<HeapHeader>() as u64 <= HEAP_RECORDS);
    assert!(
        HEAP_RECORDS + RECORD_RINGS as u64 * record_slots(CHUNKS) * 4
            <= super::CONTROL_BASE + super::METADATA_RESERVED
    );
    // Numbers of slots are compared modulo 2^32.
    assert!(record_slots(CHUNKS) <= 1 << 30);
};
