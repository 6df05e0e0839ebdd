//! Pools whose memory other processes may open.

use parking_lot::Mutex;

/// Such pools, by handle.
#[derive(Default)]
pub struct ExportedPools {
    pools: Mutex<Vec<u64>>,
}

impl ExportedPools {
    /// A pool was made to be exported.
    pub fn add(&self, pool: u64) {
        self.pools.lock().push(pool);
    }

    /// Whether other processes may open memory of a pool.
    pub fn contains(&self, pool: u64) -> bool {
        self.pools.lock().contains(&pool)
    }

    /// A pool is gone.
    pub fn remove(&self, pool: u64) {
        self.pools.lock().retain(|known| *known != pool);
    }
}
