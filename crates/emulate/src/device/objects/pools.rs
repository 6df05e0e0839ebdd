//! Memory pools and their attributes.

use crate::device::basics::Result;
use driver::sys::{CUmemPool_attribute, CUresult};
use rustc_hash::FxHashMap;

/// Handle of the device's own pool. Counted handles start far below.
pub(crate) const DEFAULT: u64 = 0x5248_0000_0000;

/// Attributes that were set.
pub(crate) type Attributes = FxHashMap<u32, u64>;

/// The pools of the device.
pub(crate) struct Pools {
    /// By handle.
    pub live: FxHashMap<u64, Attributes>,
    /// The pool that stream-ordered allocations take from.
    pub current: u64,
}

impl Default for Pools {
    fn default() -> Pools {
        Pools {
            live: FxHashMap::from_iter([(DEFAULT, Attributes::default())]),
            current: DEFAULT,
        }
    }
}

impl Pools {
    pub(crate) fn attributes(&mut self, pool: u64) -> Result<&mut Attributes> {
        self.live
            .get_mut(&pool)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
}

/// The value of an attribute that was not set: memory may be reused in every
/// way, none is kept, and none is counted by pool.
pub(crate) fn default_value(attribute: CUmemPool_attribute) -> u64 {
    match attribute {
        CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => 1,
        _ => 0,
    }
}
