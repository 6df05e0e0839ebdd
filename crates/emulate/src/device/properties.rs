//! What the device says about itself: an sm_90 whose multiprocessors are the
//! worker threads.

/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;
/// Threads of a block.
pub(crate) const MAX_THREADS: u32 = 1024;
/// Threads resident on a multiprocessor.
pub(crate) const THREADS_PER_SM: u32 = 2048;
/// Blocks resident on a multiprocessor.
pub(crate) const BLOCKS_PER_SM: u32 = 32;
/// Shared memory of a block without opting in, in bytes.
pub(crate) const SHARED_DEFAULT: u32 = 48 << 10;
/// Shared memory of a block at most, in bytes.
pub(crate) const SHARED_OPT_IN: u32 = 227 << 10;
/// Shared memory of a multiprocessor, in bytes.
pub(crate) const SHARED_PER_SM: u32 = 228 << 10;
/// Shared memory that the system takes from each block, in bytes.
pub(crate) const SHARED_RESERVED: u32 = 1 << 10;
/// Largest block in each dimension.
pub(crate) const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Largest grid in each dimension.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Blocks of a cluster, without opting in.
pub(crate) const MAX_CLUSTER: u32 = 8;

/// How many blocks fit a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Resident blocks.
    pub blocks: u32,
}

impl Occupancy {
    /// Of blocks with `threads` threads and `shared` bytes of shared memory,
    /// static and dynamic.
    pub fn of(threads: u32, shared: u32) -> Occupancy {
        if threads == 0 || threads > MAX_THREADS || shared > SHARED_OPT_IN {
            return Occupancy { blocks: 0 };
        }
        let by_threads = THREADS_PER_SM / threads.next_multiple_of(WARP_SIZE);
        let by_shared = SHARED_PER_SM / (shared + SHARED_RESERVED);
        Occupancy {
            blocks: by_threads.min(by_shared).min(BLOCKS_PER_SM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_the_scarcest() {
        assert_eq!(Occupancy::of(1024, 0).blocks, 2);
        assert_eq!(Occupancy::of(33, 0).blocks, 32);
        assert_eq!(Occupancy::of(128, 48 << 10).blocks, 4);
        assert_eq!(Occupancy::of(128, SHARED_OPT_IN).blocks, 1);
        assert_eq!(Occupancy::of(128, SHARED_OPT_IN + 1).blocks, 0);
        assert_eq!(Occupancy::of(0, 0).blocks, 0);
    }
}
