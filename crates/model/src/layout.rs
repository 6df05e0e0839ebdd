//! Addresses and records that host and device share. Instrumented PTX holds
//! these addresses as immediates, the runtime maps them, the CPU device runs
//! on them: nothing outside this file may repeat one of the numbers. What the
//! device's sources use of it is in `device/layout.cuh`, which is generated.
//!
//! ```text
//! 0x2000_0000_0000  control page, 2 MiB, device memory
//!        +0x0_0000    u64 head          records asked for so far (atomic)
//!        +0x0_0008    u64 miss_size     size that a failed lookup answers
//!        +0x0_0010    u64 heap_chunks   chunks of the device heap (`heap`)
//!        +0x0_0018    u32[2] window     pieces that shadow memory covers (`shadow`)
//!        +0x0_4000    u32[]  blocks of checks that have ended (`canary`)
//!        +0x1_0000    read sink, 64 KiB, always zero
//!        +0x2_0000    write sink, 64 KiB, never read for meaning
//! 0x2000_1000_0000  region table: 2^21 entries of 8 bytes, one per 64 MiB
//!                   of the 47-bit address space; device memory, 16 MiB
//! 0x2000_2000_0000  extent table: 32-byte entries, device memory, mapped
//!                   2 MiB at a time as it grows
//! 0x2001_0000_0000  leaves: 2^18 u32 each, one per 256 bytes of a region
//!                   that several allocations share; mapped as they grow
//! 0x2030_0000_0000  the device heap's own metadata (`heap`)
//! 0x2038_0000_0000  table of canaries (`canary`), device memory
//! 0x2080_0000_0000  records of the device heap's blocks (`records`)
//! 0x2100_0000_0000  record ring, host memory visible to the device
//!        +0x0000      u64 tail          records consumed (host writes)
//!        +0x1000      RING_CAPACITY records of 64 bytes
//! 0x2100_1000_0000  words of the guard (`guard`), host memory visible to the
//!                   device
//! 0x2100_2000_0000  when checks of canaries ran (`canary`), host memory
//! 0x2400_0000_0000  shadow memory (`shadow`), device memory, mapped 2 MiB at
//!                   a time
//! 0x4000_0000_0000  blocks of the device heap (`heap`)
//! 0x4100_0000_0000  allocations whose addresses Ringfence chooses (`placed`)
//! ```

pub mod canary;
pub mod fence;
pub mod guard;
pub mod heap;
pub mod placed;
pub mod records;
pub mod shadow;
pub mod shared;
pub mod tenant;

use shared::shared;

/// Start of the metadata region. A reservation that does not land here is a
/// start-up error.
pub const CONTROL_BASE: u64 = 0x2000_0000_0000;
/// Bytes reserved for metadata, in one piece: the driver honours a fixed hint
/// for large reservations only (measured on driver 580: 16 MiB and more land
/// where asked, 2 to 8 MiB are moved).
pub const METADATA_RESERVED: u64 = 1 << 40;
/// Bytes of the control page: one mapping granule of the driver.
pub const CONTROL_SIZE: u64 = 2 << 20;
/// `u64`: records that threads have asked a slot for.
pub const RING_HEAD: u64 = CONTROL_BASE;
/// `u64`: the size that a lookup answers when no extent holds the pointer.
/// 0 normally, so that every access through it is an error; `UNBOUNDED` while
/// device-side malloc is in use, whose blocks the host cannot see.
pub const MISS_SIZE: u64 = CONTROL_BASE + 8;
/// Reads that fail their check read here instead. Zero-filled.
pub const READ_SINK: u64 = CONTROL_BASE + 0x1_0000;
/// Writes and atomics that fail their check land here instead.
pub const WRITE_SINK: u64 = CONTROL_BASE + 0x2_0000;
/// Bytes of each sink: the largest access it can absorb.
pub const SINK_SIZE: u64 = 0x1_0000;
/// A size larger than any offset within the 47-bit address space.
pub const UNBOUNDED: u64 = 1 << 62;

/// Region table: `u64[REGION_COUNT]`, indexed by `address >> REGION_SHIFT`.
///
/// Entry 0: no allocation. Entry with bit 63 set: the low 32 bits are an
/// extent index that holds for the whole region. Otherwise: the address of a
/// leaf, `u32[LEAF_ENTRIES]`, indexed by
/// `(address >> GRANULE_SHIFT) & (LEAF_ENTRIES - 1)`, each an extent index
/// (0: none). Extent 0 is never used.
pub const REGION_TABLE: u64 = 0x2000_1000_0000;
/// log2 of the bytes that one region entry covers.
pub const REGION_SHIFT: u32 = 26;
/// Entries in the region table.
pub const REGION_COUNT: u64 = 1 << (47 - REGION_SHIFT);
/// Marks a region entry that holds an extent index itself.
pub const REGION_IS_EXTENT: u64 = 1 << 63;
/// log2 of the bytes that one leaf entry covers. Allocations never share a
/// granule: cuMemAlloc aligns to 256 bytes at least.
pub const GRANULE_SHIFT: u32 = 8;
/// Entries in one leaf.
pub const LEAF_ENTRIES: u64 = 1 << (REGION_SHIFT - GRANULE_SHIFT);
/// Where leaves are mapped, one after the other.
pub const LEAVES: u64 = 0x2001_0000_0000;
/// Bytes reserved for leaves.
pub const LEAVES_RESERVED: u64 = 1 << 36;

/// Extent table: `ExtentEntry[]`.
pub const EXTENT_TABLE: u64 = 0x2000_2000_0000;
/// Bytes reserved for the extent table.
pub const EXTENT_TABLE_RESERVED: u64 = 1 << 30;

/// One entry of the extent table, as the device reads it. The pointer that is
/// looked up belongs to the extent if `pointer - base <= size`: one past the
/// end is a legal pointer, and placement keeps it clear of the next
/// allocation's base.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExtentEntry {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub size: u64,
    /// Allocation serial, for the host's use.
    pub serial: u64,
    /// Zero.
    pub reserved: u64,
}

/// Host memory that the device writes records to.
pub const RING_BASE: u64 = 0x2100_0000_0000;
/// `u64`: records that the host has consumed.
pub const RING_TAIL: u64 = RING_BASE;
/// First record.
pub const RING_RECORDS: u64 = RING_BASE + 0x1000;
/// Records in the ring; a power of two.
pub const RING_CAPACITY: u64 = 1 << 15;
/// Bytes of the ring with its header, rounded up to the mapping granule.
pub const RING_SIZE: u64 = 4 << 20;

shared! {
/// One violated check. The device takes `n = head++`, drops the record if
/// `n - tail >= RING_CAPACITY`, else fills slot `n % RING_CAPACITY` and last
/// stores `sequence = n + 1` with release semantics at system scope; the host
/// consumes slots in order while `sequence == tail + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// `n + 1` once the record is complete.
    pub sequence: u64,
    /// Tag of the instrumented module (first 8 bytes of its content hash).
    pub module: u64,
    /// The address that failed its check, before the site's own offset: an
    /// address of the space that the instruction names, a generic one where
    /// it names none. (Shared and local addresses have their low 32 bits.)
    /// `base` is an address of the same space.
    pub address: u64,
    /// Base of the bounds it was checked against. Filled by sites whose
    /// provenance is `Lookup` or `Several`; for `KernelParameter` sites the
    /// host has the bounds of the launch. 0: pointer into nothing.
    pub base: u64,
    /// Size of those bounds, in bytes; as `base`.
    pub size: u64,
    /// `LaunchHeader::launch` of the launch; 0 in device functions that are
    /// checked in place.
    pub launch: u64,
    /// Site (or first site of the group) within the module.
    pub site: u32,
    /// `tid.x | tid.y << 10 | tid.z << 20 | window << `[`WINDOW_SHIFT`], and
    /// [`ENDED`].
    pub thread: u32,
    /// `ctaid.x`.
    pub block_x: u32,
    /// `ctaid.y | ctaid.z << 16`.
    pub block_yz: u32,
}
}

/// In a record's `thread`: the check code has ended the thread, because it went round
/// open loops too often after it had failed the check.
pub const ENDED: u32 = 1 << 31;
/// The position in a record's `thread` of the address window of the generic
/// address space that its base is in: [`WINDOW_SHARED`], [`WINDOW_LOCAL`],
/// [`WINDOW_CONSTANT`], [`WINDOW_PARAMETER`], or none (0). Without meaning for
/// instructions that name a state space.
pub const WINDOW_SHIFT: u32 = 28;
/// The shared memory of a block.
pub const WINDOW_SHARED: u32 = 1;
/// The local memory of a thread.
pub const WINDOW_LOCAL: u32 = 2;
/// Constants.
pub const WINDOW_CONSTANT: u32 = 3;
/// Parameters of the kernel.
pub const WINDOW_PARAMETER: u32 = 4;
/// Bits of `tid.z` in a record's `thread`.
pub const THREAD_Z_MASK: u32 = 0x3f;

/// Name of the parameter that instrumented entries, and checked copies of other
/// functions, carry after the program's own: a [`LaunchHeader`] followed by one
/// [`LaunchBounds`] per root. That of an entry goes on with a `u64` per limit, which
/// the host computes, so that no thread has to.
pub const LAUNCH_PARAMETER: &str = "__ringfence_launch";
/// Prefix of the instrumented copy of an entry or another function. The original
/// stays in the module, so that launch paths that are not hooked still work.
pub const CHECKED_PREFIX: &str = "__ringfence_checked_";
/// Prefix of the second instrumented copy of an entry, in which accesses have no
/// checks that can be proved before a launch. It takes the same parameters.
pub const RESIDUAL_PREFIX: &str = "__ringfence_residual_";

/// The program's own name of a function, where `name` is that of an instrumented
/// copy of it.
pub fn original_name(name: &str) -> Option<&str> {
    let checked = name.strip_prefix(CHECKED_PREFIX);
    checked.or_else(|| name.strip_prefix(RESIDUAL_PREFIX))
}

/// Head of the launch parameter.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LaunchHeader {
    /// Ordinal of the launch in the process, from 1.
    pub launch: u64,
}

/// Bounds of one pointer parameter.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LaunchBounds {
    /// First byte; the pointer itself if it points into no allocation, or 0 if
    /// it is no pointer at all.
    pub base: u64,
    /// Length in bytes; 0 if the pointer points into no allocation.
    pub size: u64,
}

/// Indices of a pointer parameter that are in bounds: `from` and the `span` that follow it,
/// modulo 2^32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LaunchRange {
    /// The first.
    pub from: u32,
    /// How many follow it.
    pub span: u32,
}

const _: () = {
    assert!(size_of::<Record>() == 64);
    assert!(size_of::<ExtentEntry>() == 32);
    assert!(size_of::<LaunchBounds>() == 16);
    assert!(size_of::<LaunchHeader>() == 8);
    assert!(RING_CAPACITY.is_power_of_two());
    assert!(RING_RECORDS - RING_BASE + RING_CAPACITY * 64 <= RING_SIZE);
    assert!(REGION_TABLE + REGION_COUNT * 8 <= EXTENT_TABLE);
    assert!(EXTENT_TABLE + EXTENT_TABLE_RESERVED <= LEAVES);
    assert!(LEAVES + LEAVES_RESERVED <= CONTROL_BASE + METADATA_RESERVED);
    assert!(CONTROL_BASE + METADATA_RESERVED <= RING_BASE);
    assert!(
        heap::HEAP_CHUNKS + heap::CHUNKS * size_of::<heap::HeapChunk>() as u64
            <= canary::CANARY_TABLE
    );
    assert!(canary::CANARY_TABLE + canary::CANARY_TABLE_RESERVED <= heap::HEAP_HEADERS);
};
