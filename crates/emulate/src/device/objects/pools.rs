//! Memory pools, their attributes, and how much memory is whose.

use crate::device::basics::Result;
use driver::sys::{CUmemPool_attribute, CUresult};
use rustc_hash::FxHashMap;

/// Handle of the device's own pool. Counted handles start far below.
pub(crate) const DEFAULT: u64 = 0x5248_0000_0000;

/// Attributes that were set.
pub(crate) type Attributes = FxHashMap<u32, u64>;

/// By how much a pool takes memory from the device.
const RESERVED_AT_ONCE: u64 = 32 << 20;

/// By how much a pool hands it out.
const UNIT: u64 = 512;

/// An amount now, and the most that it was.
#[derive(Clone, Copy, Default)]
struct Amount {
    now: u64,
    most: u64,
}

impl Amount {
    fn set(&mut self, now: u64) {
        self.now = now;
        self.most = self.most.max(now);
    }
}

/// What a pool has handed out, and what it has from the device.
#[derive(Clone, Copy, Default)]
struct Usage {
    used: Amount,
    reserved: Amount,
}

impl Usage {
    fn add(&mut self, bytes: u64) {
        self.used.set(self.used.now + bytes);
        let needed = self.used.now.next_multiple_of(RESERVED_AT_ONCE);
        self.reserved.set(self.reserved.now.max(needed));
    }

    /// Gives back what exceeds what is used and `keep`.
    fn trim(&mut self, keep: u64) {
        let needed = self.used.now.next_multiple_of(RESERVED_AT_ONCE);
        let kept = keep.checked_next_multiple_of(RESERVED_AT_ONCE);
        self.reserved.now = needed.max(self.reserved.now.min(kept.unwrap_or(u64::MAX)));
    }
}

/// The pools of the device.
pub(crate) struct Pools {
    /// By handle.
    pub live: FxHashMap<u64, Attributes>,
    /// The pool that stream-ordered allocations take from.
    pub current: u64,
    usage: FxHashMap<u64, Usage>,
    /// Pool and size of an allocation, by address.
    owners: FxHashMap<u64, (u64, u64)>,
}

impl Default for Pools {
    fn default() -> Pools {
        Pools {
            live: FxHashMap::from_iter([(DEFAULT, Attributes::default())]),
            current: DEFAULT,
            usage: FxHashMap::default(),
            owners: FxHashMap::default(),
        }
    }
}

impl Pools {
    pub(crate) fn attributes(&mut self, pool: u64) -> Result<&mut Attributes> {
        self.live
            .get_mut(&pool)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// A pool has handed out memory.
    pub(crate) fn handed_out(&mut self, pool: u64, address: u64, size: u64) {
        let bytes = size.next_multiple_of(UNIT);
        self.owners.insert(address, (pool, bytes));
        self.usage.entry(pool).or_default().add(bytes);
    }

    /// Memory was freed; of which pool, if of any, is known here.
    pub(crate) fn taken_back(&mut self, address: u64) {
        if let Some((pool, bytes)) = self.owners.remove(&address)
            && let Some(usage) = self.usage.get_mut(&pool)
        {
            usage.used.now -= bytes;
        }
    }

    /// What a pool does not use goes back to the device, but for `keep`.
    pub(crate) fn trim(&mut self, pool: u64, keep: u64) {
        if let Some(usage) = self.usage.get_mut(&pool) {
            usage.trim(keep);
        }
    }

    /// The value of an attribute that counts bytes, if it is one. What exceeds
    /// the threshold is gone: it goes when the host waits, at the latest.
    pub(crate) fn counted(&mut self, pool: u64, attribute: CUmemPool_attribute) -> Option<u64> {
        use CUmemPool_attribute as A;
        let threshold = self.live.get(&pool).and_then(|attributes| {
            let threshold = A::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            attributes.get(&threshold.0).copied()
        });
        let usage = self.usage.entry(pool).or_default();
        usage.trim(threshold.unwrap_or(0));
        Some(match attribute {
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => usage.reserved.now,
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => usage.reserved.most,
            A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => usage.used.now,
            A::CU_MEMPOOL_ATTR_USED_MEM_HIGH => usage.used.most,
            _ => return None,
        })
    }

    /// Forgets the most that an amount was, if the attribute is one of these.
    pub(crate) fn forget_most(&mut self, pool: u64, attribute: CUmemPool_attribute) -> bool {
        use CUmemPool_attribute as A;
        let usage = self.usage.entry(pool).or_default();
        let amount = match attribute {
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => &mut usage.reserved,
            A::CU_MEMPOOL_ATTR_USED_MEM_HIGH => &mut usage.used,
            _ => return false,
        };
        amount.most = amount.now;
        true
    }
}

/// The value of an attribute that was not set: memory may be reused in every
/// way, and none is kept.
pub(crate) fn default_value(attribute: CUmemPool_attribute) -> u64 {
    match attribute {
        CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => 1,
        _ => 0,
    }
}
