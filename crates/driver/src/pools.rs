//! Memory pools, for implementations of the API that have one store of memory: pools
//! are names for it. Their attributes are kept and returned, and what each has handed
//! out is counted.

use crate::sys::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUmemAllocationType, CUmemLocationType, CUmemPool_attribute,
    CUresult,
};
use std::collections::BTreeMap;

/// By how much a pool takes memory from the device, in bytes.
const RESERVED_AT_ONCE: u64 = 32 << 20;

/// By how much it hands it out, in bytes.
const UNIT: u64 = 512;

/// What an allocation node is that a capture has made: of memory of device 0.
pub fn captured_allocation() -> CUDA_MEM_ALLOC_NODE_PARAMS {
    let mut node = CUDA_MEM_ALLOC_NODE_PARAMS::zeroed();
    node.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    node.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    node
}

/// What a call answers.
type Result<T> = std::result::Result<T, CUresult>;

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

/// A pool: attributes that were set, what it has handed out, and what it has from the
/// device.
#[derive(Default)]
struct Pool {
    attributes: BTreeMap<u32, u64>,
    used: Amount,
    reserved: Amount,
}

impl Pool {
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

    /// The amount whose most an attribute is.
    fn most(&mut self, attribute: CUmemPool_attribute) -> Option<&mut Amount> {
        match attribute {
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => Some(&mut self.reserved),
            CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => Some(&mut self.used),
            _ => None,
        }
    }

    /// The value of an attribute that counts bytes, if it is one. What exceeds the
    /// threshold is gone: it goes when the host waits, at the latest.
    fn counted(&mut self, attribute: CUmemPool_attribute) -> Option<u64> {
        use CUmemPool_attribute as A;
        let threshold = A::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.0;
        self.trim(self.attributes.get(&threshold).copied().unwrap_or(0));
        Some(match attribute {
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => self.reserved.now,
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => self.reserved.most,
            A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => self.used.now,
            A::CU_MEMPOOL_ATTR_USED_MEM_HIGH => self.used.most,
            _ => return None,
        })
    }
}

/// The pools of a device. Handles that are none of a pool's are answered with
/// `CUDA_ERROR_INVALID_VALUE`, as by NVIDIA's driver.
pub struct Pools {
    default: u64,
    current: u64,
    live: BTreeMap<u64, Pool>,
    /// Pool and bytes of an allocation, by address.
    owners: BTreeMap<u64, (u64, u64)>,
}

impl Pools {
    /// The device's own pool alone, which has this handle.
    pub fn new(default: u64) -> Pools {
        Pools {
            default,
            current: default,
            live: BTreeMap::from([(default, Pool::default())]),
            owners: BTreeMap::new(),
        }
    }

    fn pool(&mut self, pool: u64) -> Result<&mut Pool> {
        let found = self.live.get_mut(&pool);
        found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// The pool that stream-ordered allocations take from.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// Makes a pool the current one.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn set_current(&mut self, pool: u64) -> Result<()> {
        self.exists(pool)?;
        self.current = pool;
        Ok(())
    }

    /// Whether a handle is a pool's.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn exists(&mut self, pool: u64) -> Result<()> {
        self.pool(pool).map(drop)
    }

    /// A pool was made, which has this handle.
    pub fn add(&mut self, pool: u64) {
        self.live.insert(pool, Pool::default());
    }

    /// Destroys a pool. If it is the current one, the device's own takes its place.
    ///
    /// # Errors
    ///
    /// It is none, or the device's own.
    pub fn destroy(&mut self, pool: u64) -> Result<()> {
        if pool == self.default || self.live.remove(&pool).is_none() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if self.current == pool {
            self.current = self.default;
        }
        Ok(())
    }

    /// Sets an attribute. The most that an amount was can only be forgotten (cuda.h).
    ///
    /// # Errors
    ///
    /// The handle is no pool's, or the value none of the attribute's.
    pub fn set(&mut self, pool: u64, attribute: CUmemPool_attribute, value: u64) -> Result<()> {
        let pool = self.pool(pool)?;
        if let Some(amount) = pool.most(attribute) {
            amount.most = amount.now;
            return match value {
                0 => Ok(()),
                _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            };
        }
        pool.attributes.insert(attribute.0, value);
        Ok(())
    }

    /// The value of an attribute.
    ///
    /// # Errors
    ///
    /// The handle is no pool's.
    pub fn get(&mut self, pool: u64, attribute: CUmemPool_attribute) -> Result<u64> {
        let pool = self.pool(pool)?;
        let set = pool.attributes.get(&attribute.0).copied();
        let found = pool.counted(attribute).or(set);
        Ok(found.unwrap_or_else(|| default_value(attribute)))
    }

    /// What a pool does not use goes back to the device, but for `keep` bytes.
    ///
    /// # Errors
    ///
    /// The handle is no pool's.
    pub fn trim(&mut self, pool: u64, keep: u64) -> Result<()> {
        self.pool(pool)?.trim(keep);
        Ok(())
    }

    /// A pool has handed out memory.
    pub fn handed_out(&mut self, pool: u64, address: u64, size: u64) {
        let bytes = size.next_multiple_of(UNIT);
        self.owners.insert(address, (pool, bytes));
        if let Some(pool) = self.live.get_mut(&pool) {
            pool.add(bytes);
        }
    }

    /// Memory was freed; of which pool, if of any, is known here.
    pub fn taken_back(&mut self, address: u64) {
        if let Some((pool, bytes)) = self.owners.remove(&address)
            && let Some(pool) = self.live.get_mut(&pool)
        {
            pool.used.now -= bytes;
        }
    }
}

/// Whether an attribute is an `int` flag: the first three are; the others are 64-bit
/// counts (cuda.h).
pub fn is_flag(attribute: CUmemPool_attribute) -> bool {
    (1..=3).contains(&attribute.0)
}

/// The value of an attribute that was not set: memory may be reused in every way, and
/// none is kept.
fn default_value(attribute: CUmemPool_attribute) -> u64 {
    match attribute {
        CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::Pools;
    use crate::sys::{CUmemPool_attribute as A, CUresult};

    const INVALID: Result<(), CUresult> = Err(CUresult::CUDA_ERROR_INVALID_VALUE);

    #[test]
    fn what_is_handed_out_is_counted_until_it_is_taken_back() {
        let mut pools = Pools::new(1);
        pools.add(2);
        pools.handed_out(2, 0x1000, 1000);
        pools.handed_out(2, 0x2000, 1);
        pools.handed_out(1, 0x3000, 7);
        assert_eq!(pools.get(2, A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), Ok(1536));
        assert_eq!(
            pools.get(2, A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
            Ok(32 << 20)
        );
        pools.taken_back(0x1000);
        pools.taken_back(0x1000);
        assert_eq!(pools.get(2, A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), Ok(512));
        assert_eq!(pools.get(2, A::CU_MEMPOOL_ATTR_USED_MEM_HIGH), Ok(1536));
        assert_eq!(pools.set(2, A::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 1), INVALID);
        assert_eq!(pools.set(2, A::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0), Ok(()));
        assert_eq!(pools.get(2, A::CU_MEMPOOL_ATTR_USED_MEM_HIGH), Ok(512));
        pools.taken_back(0x2000);
        assert_eq!(pools.get(2, A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), Ok(0));
        assert_eq!(pools.get(1, A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), Ok(512));
    }

    #[test]
    fn the_device_has_a_pool_that_stays() {
        let mut pools = Pools::new(1);
        pools.add(2);
        assert_eq!(pools.set_current(2), Ok(()));
        assert_eq!(pools.destroy(2), Ok(()));
        assert_eq!((pools.current(), pools.destroy(1)), (1, INVALID));
        assert_eq!(pools.set_current(2), INVALID);
        // Its memory outlives a pool.
        pools.handed_out(2, 0x1000, 1);
        pools.taken_back(0x1000);
    }
}
