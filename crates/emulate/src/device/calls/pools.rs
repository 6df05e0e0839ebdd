//! Memory pools. There is one store of memory: pools are names for it. What each
//! has handed out is counted, and their attributes are kept and returned.

use crate::device::basics::Result;
use crate::device::objects::pools::{Attributes, DEFAULT, default_value};
use crate::device::state::Device;
use driver::sys::{CUmemPool_attribute, CUresult};

impl Device {
    /// `cuDeviceGetDefaultMemPool`
    pub fn pool_default(&self) -> u64 {
        DEFAULT
    }

    /// `cuDeviceGetMemPool`
    pub fn pool_current(&self) -> u64 {
        self.state.pools.lock().current
    }

    /// `cuDeviceSetMemPool`
    pub fn pool_set_current(&self, pool: u64) -> Result<()> {
        let mut pools = self.state.pools.lock();
        pools.attributes(pool)?;
        pools.current = pool;
        Ok(())
    }

    /// `cuMemPoolCreate`
    pub fn pool_create(&self) -> u64 {
        let handle = self.handle();
        let mut pools = self.state.pools.lock();
        pools.live.insert(handle, Attributes::default());
        handle
    }

    /// `cuMemPoolDestroy`. The default pool takes the place of the current one.
    pub fn pool_destroy(&self, pool: u64) -> Result<()> {
        let mut pools = self.state.pools.lock();
        if pool == DEFAULT || pools.live.remove(&pool).is_none() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if pools.current == pool {
            pools.current = DEFAULT;
        }
        Ok(())
    }

    /// Whether a handle is a pool, else the error for it.
    pub fn pool_exists(&self, pool: u64) -> Result<()> {
        self.state.pools.lock().attributes(pool).map(drop)
    }

    /// `cuMemPoolSetAttribute`
    pub fn pool_set_attribute(
        &self,
        pool: u64,
        attribute: CUmemPool_attribute,
        value: u64,
    ) -> Result<()> {
        let mut pools = self.state.pools.lock();
        pools.attributes(pool)?;
        if pools.forget_most(pool, attribute) {
            // They can only be reset (cuda.h).
            return match value {
                0 => Ok(()),
                _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            };
        }
        pools.attributes(pool)?.insert(attribute.0, value);
        Ok(())
    }

    /// `cuMemPoolGetAttribute`
    pub fn pool_attribute(&self, pool: u64, attribute: CUmemPool_attribute) -> Result<u64> {
        let mut pools = self.state.pools.lock();
        let set = pools.attributes(pool)?.get(&attribute.0).copied();
        let counted = pools.counted(pool, attribute);
        Ok(counted.or(set).unwrap_or_else(|| default_value(attribute)))
    }

    /// `cuMemAllocFromPoolAsync`
    pub fn allocate_from_pool(
        &self,
        size: u64,
        pool: u64,
        stream: u64,
    ) -> Result<model::DeviceAddress> {
        self.pool_exists(pool)?;
        self.allocate_in_stream(size, pool, stream)
    }

    /// `cuMemPoolTrimTo`
    pub fn pool_trim(&self, pool: u64, keep: u64) -> Result<()> {
        let mut pools = self.state.pools.lock();
        pools.attributes(pool)?;
        pools.trim(pool, keep);
        Ok(())
    }
}
