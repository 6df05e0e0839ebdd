//! The layout of memory that fenced code and the host share (protection
//! `fence`; Guardian, section 4.3).
//!
//! A tenant's memory is a *partition*: a range of addresses of its own, of
//! which any part may be backed. Beside it lie margins, and the outermost bytes
//! of the partition itself hold no allocation:
//!
//! ```text
//!   MARGIN      HEADROOM                              HEADROOM      MARGIN
//! |-- sink --|-- sink --|------ allocations ------|-- sink --|-- sink --|
//!            ^ base                                          ^ base + size
//! ```
//!
//! Addresses without an allocation are backed by sink pages of the tenant. A
//! fence keeps a *register* in the partition. What code adds to it until it is
//! the address of an access, at most [`REACH`] in either direction, and the bytes
//! of the access, at most [`EXTENT`], stay in the margins. In a program whose
//! pointers stay inside its allocations, or [`HEADROOM`] beside them, each such
//! register is in the partition already: the fence does not change it.
//!
//! A module loads its partition from a constant variable, [`VARIABLE`], which
//! the host writes when it has loaded the module for a tenant.

use std::fmt;
use std::mem::offset_of;

/// The constant variable of a fenced module that holds [`FenceTable`], followed
/// by the address of each variable in global memory that the module defines, in
/// the order of the text.
pub const VARIABLE: &str = "__ringfence_fence";

/// The variable in local memory of a kernel whose functions have frames: it
/// holds the frames of each of them, and nothing else.
pub const FRAMES: &str = "__ringfence_frames";

/// The first parameter of a function that has a frame, or calls one that has:
/// the address of [`FRAMES`] in local memory.
pub const STACK: &str = "%__rf_stack";

/// The last parameter of a kernel whose grid may synchronize, eight bytes which the host
/// adds to the program's: the address of [`WORKSPACE_BYTES`] of zeros that no other
/// launch uses, or 0 where the launch is not cooperative.
pub const WORKSPACE: &str = "__ringfence_workspace";

/// Bytes of what [`WORKSPACE`] points to: a size that nothing reads, and the barrier
/// (`cooperative_groups/details/driver_abi.h`).
pub const WORKSPACE_BYTES: u64 = 8;

/// The least size of a partition, and what bases and sizes are multiples of
/// where fences mask: the low half of an
/// address is then never changed.
pub const UNIT: u64 = 1 << 32;

/// What bases and sizes are multiples of otherwise: one mapping granule of the
/// driver.
pub const GRANULE: u64 = 2 << 20;

/// Bytes at either end of a partition in which no allocation lies.
pub const HEADROOM: u64 = 64 << 20;

/// Bytes before and after a partition that are backed by sink pages.
pub const MARGIN: u64 = 33 << 30;

/// The most that code may add to a register that is in the partition, or subtract
/// from it: an index of 32 bits, signed and scaled by 16, or unsigned and scaled by 8;
/// and 1 MiB more, for constants and for the low bits that an alignment clears.
pub const REACH: u64 = (32 << 30) + (1 << 20);

/// Bytes of one access, at most: of a matrix, from the first row that an instruction
/// reads to the end of the last one.
pub const EXTENT: u64 = 512 << 20;

const _: () = assert!(REACH + EXTENT <= MARGIN);

/// The most bytes of shared memory that code may take for granted in each block: the
/// verifier tells how many a kernel does, and the host launches no block with fewer. (A
/// test before each access keeps ptxas from moving loads.)
pub const ROOM: u64 = 1024;

/// Barriers of a block (PTX ISA, `bar`).
pub const BARRIERS: i64 = 16;

/// Threads of a warp.
pub const WARP: i64 = 32;

/// Counters of threads that would have ended the context and retire instead: a
/// `u64` each, from the partition's first byte on. The host backs the page with
/// memory of its own, and reads it when the tenant synchronizes. (A tenant can
/// write there; a false count only affects its own report.)
pub mod retired {
    /// Threads that reached a `trap`.
    pub const TRAPS: u32 = 0;
    /// Threads whose `assert` failed.
    pub const ASSERTS: u32 = 8;
}

/// What the form of fences that checks has found in a module: a variable in global
/// memory, the first one of the module, which the host places and clears like the
/// others. (A tenant can write there; that only affects its own report.)
pub mod found {
    /// Its name.
    pub const VARIABLE: &str = "__ringfence_found";
    /// A `u64`: accesses that would have left the partition.
    pub const COUNT: u32 = 0;
    /// A `u64`: the number of the access that was the first, from 1; 0 if there
    /// was none.
    pub const SITE: u32 = 8;
    /// A `u64`: the address that it was for.
    pub const ADDRESS: u32 = 16;
    /// Bytes of all of it.
    pub const BYTES: u64 = 24;
}

/// What the host shares with the fenced code of a tenant beside its partition,
/// in memory that the tenant cannot write: at [`FenceTable::stop`], aligned to
/// [`stop::BYTES`].
pub mod stop {
    /// A `u32`: once it is not zero, each thread retires where it next looks at
    /// it. Only the host writes it.
    pub const WORD: u32 = 0;
    /// A `u64`: threads that did.
    pub const RETIRED: u32 = 8;
    /// Bytes of all of it.
    pub const BYTES: u64 = 16;
    /// The most steps (PTX instructions) of one thread that may follow, not
    /// counting the time that it waits for others.
    pub const STEPS: u64 = 1 << 26;
    /// Where a grid has more blocks than this over the steps of a thread, each
    /// block must look at the word before it begins.
    pub const GRID_STEPS: u64 = 1 << 36;
}

/// The head of the variable.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceTable {
    /// First byte of the partition.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// `size - 1`.
    pub mask: u64,
    /// 2^64 / size, rounded down.
    pub reciprocal: u64,
    /// Where the words of [`stop`] are, in global memory.
    pub stop: u64,
    /// Bytes of shared memory that the system reserves in each block, before
    /// the program's (`CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK`).
    pub reserved_shared: u32,
    /// Not zero once a grid of so many blocks may run that each of them looks at the word
    /// of [`stop`] before it begins ([`stop::GRID_STEPS`]). The host sets it before such a
    /// launch.
    pub is_large: u32,
}

/// Offset of the upper half of [`FenceTable::base`].
pub const BASE_HIGH: u32 = BASE + 4;
/// Offset of the upper half of [`FenceTable::mask`].
pub const MASK_HIGH: u32 = offset_of!(FenceTable, mask) as u32 + 4;
/// Offset of [`FenceTable::base`].
pub const BASE: u32 = offset_of!(FenceTable, base) as u32;
/// Offset of [`FenceTable::size`].
pub const SIZE: u32 = offset_of!(FenceTable, size) as u32;
/// Offset of [`FenceTable::reciprocal`].
pub const RECIPROCAL: u32 = offset_of!(FenceTable, reciprocal) as u32;
/// Offset of [`FenceTable::stop`].
pub const STOP: u32 = offset_of!(FenceTable, stop) as u32;
/// Offset of [`FenceTable::reserved_shared`].
pub const RESERVED_SHARED: u32 = offset_of!(FenceTable, reserved_shared) as u32;
/// Offset of [`FenceTable::is_large`].
pub const IS_LARGE: u32 = offset_of!(FenceTable, is_large) as u32;
/// Offset of the addresses of variables, 8 bytes each.
pub const VARIABLES: u32 = size_of::<FenceTable>() as u32;

/// A range that cannot be a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPartition {
    /// First byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Why, a lower-case fragment.
    pub reason: &'static str,
}

impl std::error::Error for NoPartition {}

impl fmt::Display for NoPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoPartition { base, size, reason } = self;
        write!(
            f,
            "{size:#x} bytes at {base:#x} cannot be a partition: {reason}"
        )
    }
}

impl FenceTable {
    /// The table of a partition, for any form of fence if `is_masked`, else
    /// for the one by modulo; the words of [`stop`] are at `stop`.
    ///
    /// # Errors
    ///
    /// The range is not aligned as the form needs it, or too small; or the
    /// tenant could reach the words of `stop`.
    pub fn new(
        (base, size): (u64, u64),
        stop: u64,
        reserved_shared: u32,
        is_masked: bool,
    ) -> Result<FenceTable, NoPartition> {
        let refused = |reason| Err(NoPartition { base, size, reason });
        let granule = if is_masked { UNIT } else { GRANULE };
        if size <= 2 * HEADROOM {
            return refused("it has no room beside its headroom");
        }
        if !base.is_multiple_of(granule) || !size.is_multiple_of(granule) {
            return refused("its base or size is no multiple of the granule");
        }
        if is_masked && (!size.is_power_of_two() || !base.is_multiple_of(size)) {
            return refused("its size is no power of two that its base is a multiple of");
        }
        if !reserved_shared.is_multiple_of(1024) {
            return refused("the system's part of shared memory is no multiple of 1 KiB");
        }
        if base < MARGIN || base.checked_add(size + MARGIN).is_none() {
            return refused("there is no room for a margin beside it");
        }
        let reach = base - MARGIN..base + size + MARGIN;
        if stop == 0 || !stop.is_multiple_of(stop::BYTES) || reach.contains(&stop) {
            return refused("the words that end kernels are misaligned, or in reach of the tenant");
        }
        Ok(FenceTable {
            base,
            size,
            mask: size - 1,
            reciprocal: (u128::from(u64::MAX) + 1).wrapping_div(u128::from(size)) as u64,
            stop,
            reserved_shared,
            is_large: 0,
        })
    }

    /// The table as the device reads it.
    pub fn bytes(&self) -> [u8; VARIABLES as usize] {
        let mut out = [0; VARIABLES as usize];
        let words = [self.base, self.size, self.mask, self.reciprocal, self.stop];
        let low = u64::from(self.reserved_shared) | u64::from(self.is_large) << 32;
        for (place, word) in out.chunks_exact_mut(8).zip(words.into_iter().chain([low])) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_laid_out_as_its_offsets_say() {
        let table = FenceTable::new((3 << 34, 1 << 34), 1 << 33, 1024, true).unwrap();
        let bytes = table.bytes();
        let word = |at: u32| {
            let at = at as usize;
            u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
        };
        assert_eq!(word(BASE_HIGH), 3 << 2);
        assert_eq!(word(MASK_HIGH), 3);
        assert_eq!((word(RESERVED_SHARED), word(IS_LARGE)), (1024, 0));
        assert_eq!((word(BASE), word(SIZE)), (0, 0));
        assert_eq!(word(RECIPROCAL), 1 << 30);
        assert_eq!((word(STOP), word(STOP + 4)), (0, 2));
    }

    #[test]
    fn what_cannot_be_a_partition_is_refused() {
        let ok =
            |base, size, is_masked| FenceTable::new((base, size), 1 << 40, 0, is_masked).is_ok();
        assert!(ok(1 << 45, 1 << 36, true));
        assert!(!ok(1 << 45, 3 << 34, true), "no power of two");
        assert!(ok(1 << 45, 3 << 34, false));
        assert!(!ok(1 << 35, 1 << 36, true), "base is no multiple of size");
        assert!(!ok(1 << 45, 1 << 27, false), "nothing but headroom");
        assert!(!ok((1 << 45) + 1, 1 << 36, false));
        assert!(!ok(0, 1 << 36, true), "no margin");
        assert!(!ok(u64::MAX - (1 << 36) + 1, 1 << 36, true));
        let stopped = |stop| FenceTable::new((1 << 45, 1 << 36), stop, 0, true).is_ok();
        assert!(stopped((1 << 45) - MARGIN - stop::BYTES));
        assert!(!stopped((1 << 45) - MARGIN), "in a margin");
        assert!(stopped((1 << 45) + (1 << 36) + MARGIN));
        assert!(!stopped((1 << 45) + (1 << 36)), "in a margin");
        assert!(!stopped((1 << 40) + 8), "misaligned");
        assert!(!stopped(0), "nowhere");
    }
}
