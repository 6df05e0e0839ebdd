//! The heap of device-side `malloc` and `free`, as host and device share it.
//! `device/heap.cu` works on it.
//!
//! ```text
//! 0x2030_0000_0000  HeapControl
//! 0x2030_1000_0000  maps: for every 32 chunks 32 words of 32 bits, one for
//!                   each class (chunks with room) and, last, free chunks
//! 0x2030_4000_0000  quarantine: freed blocks in the order of their frees
//! 0x2031_0000_0000  a Chunk for each chunk
//! 0x2040_0000_0000  a HeapHeader for each block that a chunk can hold
//! 0x4000_0000_0000  the blocks; a chunk of 16 KiB holds blocks of one class,
//!                   or a run of chunks holds one large block
//! ```
//!
//! Headers are apart from blocks: a program that writes past its block does not
//! reach them. The header's address follows from the block's (chunk, class,
//! index). Initially everything is zero except the maps' free words.

use super::shared::shared;

/// First byte of the heap.
pub const HEAP_BASE: u64 = 0x4000_0000_0000;
/// Bytes of addresses that the heap may grow to.
pub const HEAP_RESERVED: u64 = 1 << 38;
/// log2 of the bytes of a chunk.
pub const CHUNK_SHIFT: u32 = 14;
/// Chunks that the heap may grow to.
pub const CHUNKS: u64 = HEAP_RESERVED >> CHUNK_SHIFT;
/// Most blocks in one chunk.
pub const CHUNK_BLOCKS: u64 = 256;
/// Sizes of blocks within chunks.
pub const CLASSES: u32 = 23;

/// `u64` in the control page, beside the ring's head: chunks that are mapped.
/// Zero while there is no heap.
pub const HEAP_CHUNKS_MAPPED: u64 = super::CONTROL_BASE + 16;
/// [`HeapControl`].
pub const HEAP_CONTROL: u64 = 0x2030_0000_0000;
/// Bytes mapped for it.
pub const HEAP_CONTROL_SIZE: u64 = 2 << 20;
/// `u32[CHUNKS / 32][MAP_WORDS]`.
pub const HEAP_MAPS: u64 = 0x2030_1000_0000;
/// Words for every 32 chunks.
pub const MAP_WORDS: u64 = 32;
/// The word of free chunks.
pub const MAP_FREE: u64 = 31;
/// `u32[QUARANTINE_CAPACITY]`.
pub const HEAP_QUARANTINE: u64 = 0x2030_4000_0000;
/// Freed blocks in quarantine, a power of two; at least twice as many as
/// threads can run at once.
pub const QUARANTINE_CAPACITY: u64 = 1 << 20;
/// `HeapChunk[CHUNKS]`.
pub const HEAP_CHUNKS: u64 = 0x2031_0000_0000;
/// `HeapHeader[CHUNKS * CHUNK_BLOCKS]`.
pub const HEAP_HEADERS: u64 = 0x2040_0000_0000;

shared! {
/// State of the heap as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapControl {
    /// Bytes of freed blocks to hold back; the host writes it.
    pub quarantine_budget: u64,
    /// Bytes in quarantine now.
    pub held: u64,
    /// Frees so far: the place in the quarantine that the next one takes.
    pub head: u32,
    /// Blocks that have left the quarantine.
    pub tail: u32,
    /// Free chunks in the maps.
    pub free_chunks: i32,
    /// Word of the maps below which no chunk is likely to be free.
    pub low: u32,
    /// Some chunk of a class may be wholly free.
    pub maybe_empty: u32,
    /// Threads that search for such chunks.
    pub reclaiming: u32,
    /// Counts changes. A thread that found nothing searches again after one.
    pub version: u32,
    /// Word of the maps above which no chunk was ever of a class.
    pub high: u32,
    /// Chunks with room in the maps, by class.
    pub partial: [i32; CLASSES as usize + 1],
    /// The chunks that threads allocate from, plus one, by class and slot.
    pub active: [[u32; SLOTS as usize]; CLASSES as usize],
    /// By class, the word of the maps in which a bit was set last.
    pub near: [u32; CLASSES as usize],
}
}

/// Chunks of one class that threads allocate from at a time, a power of two.
pub const SLOTS: u32 = 32;

shared! {
/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HeapChunk {
    /// 0: never used; 1 + class; [`KIND_RUN`]; [`KIND_REST`].
    pub kind: u32,
    /// Bytes from block to block; chunks of a run; first chunk of a rest.
    pub stride: u32,
    /// `ceil(2^32 / stride)`: an offset's block is the high half of the
    /// product.
    pub magic: u32,
    /// Blocks.
    pub capacity: u32,
    /// Free blocks; far below zero while the chunk belongs to no class.
    pub count: i32,
    /// 1 once `count` was put far below zero.
    pub reclaimed: u32,
    /// Zero.
    pub reserved: [u32; 2],
    /// A bit for each block that is not free: in use, or in quarantine.
    pub taken: [u32; CHUNK_BLOCKS as usize / 32],
}
}

/// First chunk of a large block.
pub const KIND_RUN: u32 = 64;
/// Another chunk of a large block.
pub const KIND_REST: u32 = 65;

shared! {
/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HeapHeader {
    /// State in the top eight bits, exact size in the rest.
    pub word: u64,
    /// The call that allocated it: low half of the module's tag, and site.
    pub allocated: u64,
    /// The call that freed it, likewise.
    pub freed: u64,
    /// Launch (low 31 bits) that allocated it, 0 if not known; the top bit once
    /// it was reported that a canary of the block was overwritten.
    pub allocated_launch: u32,
    /// Launch that freed it.
    pub freed_launch: u32,
}
}

/// Shift of the state in [`HeapHeader::word`], and of the verdict in the size
/// of a record of a free.
pub const STATE_SHIFT: u32 = 56;
/// The block is in use.
pub const STATE_LIVE: u64 = 1;
/// The block was freed: it is in quarantine or may be used again.
pub const STATE_FREED: u64 = 2;
/// The block is being freed, and its head canary marked.
pub const STATE_FREEING: u64 = 3;

/// Record of a free: the block had been freed before.
pub const FREE_AGAIN: u64 = 1;
/// Record of a free: the pointer points into a block, not to its start.
pub const FREE_INSIDE: u64 = 2;
/// Record of a free: no block of the heap is there.
pub const FREE_NOTHING: u64 = 3;

const _: () = {
    assert!(size_of::<HeapChunk>() == 64);
    assert!(size_of::<HeapHeader>() == 32);
    assert!(size_of::<HeapControl>() as u64 <= HEAP_CONTROL_SIZE);
    assert!(CLASSES as u64 <= MAP_FREE && MAP_FREE < MAP_WORDS);
    assert!(super::LEAVES + super::LEAVES_RESERVED <= HEAP_CONTROL);
    assert!(HEAP_MAPS + CHUNKS / 32 * MAP_WORDS * 4 <= HEAP_QUARANTINE);
    assert!(HEAP_QUARANTINE + QUARANTINE_CAPACITY * 4 <= HEAP_CHUNKS);
    assert!(HEAP_CHUNKS + CHUNKS * size_of::<HeapChunk>() as u64 <= HEAP_HEADERS);
    assert!(
        HEAP_HEADERS + CHUNKS * CHUNK_BLOCKS * size_of::<HeapHeader>() as u64
            <= super::CONTROL_BASE + super::METADATA_RESERVED
    );
    assert!(HEAP_CHUNKS_MAPPED > super::MISS_SIZE && HEAP_CHUNKS_MAPPED < super::READ_SINK);
    // A block's handle is its chunk and index in 32 bits.
    assert!(CHUNKS * CHUNK_BLOCKS <= 1 << 32);
};
