//! Memory pools. There is one store of memory: pools are names for it. What each
//! has handed out is counted, and their attributes are kept and returned.

use crate::device::basics::Result;
use crate::device::state::{DEFAULT_POOL, Device};
use driver::sys::CUmemPool_attribute;

impl Device {
    /// `cuDeviceGetDefaultMemPool`
    pub fn pool_default(&self) -> u64 {
        DEFAULT_POOL
    }

    /// `cuDeviceGetMemPool`
    pub fn pool_current(&self) -> u64 {
        self.state.pools.lock().current()
    }

    /// `cuDeviceSetMemPool`
    pub fn pool_set_current(&self, pool: u64) -> Result<()> {
        self.state.pools.lock().set_current(pool)
    }

    /// `cuMemPoolCreate`
    pub fn pool_create(&self) -> u64 {
        let handle = self.handle();
        self.state.pools.lock().add(handle);
        handle
    }

    /// `cuMemPoolDestroy`. The default pool takes the place of the current one.
    pub fn pool_destroy(&self, pool: u64) -> Result<()> {
        self.state.pools.lock().destroy(pool)
    }

    /// Whether a handle is a pool, else the error for it.
    pub fn pool_exists(&self, pool: u64) -> Result<()> {
        self.state.pools.lock().exists(pool)
    }

    /// `cuMemPoolSetAttribute`
    pub fn pool_set_attribute(
        &self,
        pool: u64,
        attribute: CUmemPool_attribute,
        value: u64,
    ) -> Result<()> {
        self.state.pools.lock().set(pool, attribute, value)
    }

    /// `cuMemPoolGetAttribute`
    pub fn pool_attribute(&self, pool: u64, attribute: CUmemPool_attribute) -> Result<u64> {
        self.state.pools.lock().get(pool, attribute)
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
        self.state.pools.lock().trim(pool, keep)
    }
}
