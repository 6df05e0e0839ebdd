//! What a fenced program's `printf` and `malloc` share with the host
//! (`device/tenant.cu`). All of it lies in the tenant's partition, one of each
//! for all of its modules, and the tenant can write any of it: the host reads it
//! as it reads any bytes of a stranger's ([`crate::printed`]).
//!
//! ```text
//! TenantPrint.records: records, one after the other, from the first byte on
//!   PrintHead   format   arguments   strings        each of a multiple of 8 bytes
//! TenantHeap.base: blocks, each of a power of two
//! ```

use super::shared::shared;

/// The variable of a module that prints: [`TenantPrint`].
pub const PRINT: &str = "__ringfence_print";
/// The variable of a module that allocates: [`TenantHeap`].
pub const HEAP: &str = "__ringfence_heap";

/// Bytes of a format that are printed, at most.
pub const PRINT_FORMAT: u32 = 4096;
/// Bytes of the arguments of one call, at most.
pub const PRINT_ARGUMENTS: u32 = 1024;
/// Bytes of one string, at most.
pub const PRINT_STRING: u32 = 4096;

/// Classes of blocks: one of class `c` has 2^c bytes.
pub const TENANT_CLASSES: u32 = 37;
/// The smallest class.
pub const TENANT_LEAST: u32 = 5;
/// Bytes of a block before the program's own: [`TENANT_LIVE`] plus the class, and
/// eight of nothing.
pub const TENANT_HEAD: u32 = 16;
/// Marks the head of a block that is in use.
pub const TENANT_LIVE: u64 = 0x5246_4845_4150_0000;

shared! {
    /// Where a tenant's threads print to. The host writes `size` and `records`
    /// before the first launch, and after each synchronization, when it has read
    /// the records, clears them and `used`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TenantPrint {
        /// Bytes that threads have asked for, perhaps more than there are.
        pub used: u64,
        /// Bytes at `records`.
        pub size: u64,
        /// Address of the records.
        pub records: u64,
        /// Calls of `printf` for which there was no room.
        pub lost: u64,
    }

    /// The head of a record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PrintHead {
        /// Bytes of the record with its head; zero if it was never finished.
        pub total: u32,
        /// Bytes of the format, without a terminator.
        pub format: u32,
        /// Bytes of the arguments.
        pub arguments: u32,
        /// Bytes of the strings that the arguments point to, in their order, each
        /// with a terminator.
        pub strings: u32,
    }

    /// The heap of a tenant. The host writes `base` and `size` before the first
    /// launch; the rest is zero initially.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TenantHeap {
        /// First byte, a multiple of 32.
        pub base: u64,
        /// Bytes, at most 128 GiB.
        pub size: u64,
        /// Bytes that were ever part of a block, and the first 32, which are not.
        pub used: u64,
        /// Free blocks by class: in the lower half the distance of the first from
        /// `base` in units of 32 bytes, 0 if there is none; in the upper half how
        /// often the list has changed. A free block holds the next one's distance
        /// where the program's bytes were.
        pub free: [u64; 37],
    }
}

const _: () = assert!(TENANT_CLASSES == 37);

impl TenantHeap {
    /// A heap without blocks.
    pub fn new(base: u64, size: u64) -> TenantHeap {
        TenantHeap {
            base,
            size: size.min(128 << 30),
            used: 32,
            free: [0; 37],
        }
    }
}
