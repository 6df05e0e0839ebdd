//! Memory that belongs to graphs: allocation and free nodes, added or captured.
//!
//! The address is fixed when the node is added; here the pages are, too. They
//! go when no graph holds the node any more, unless the program still has what
//! a launch allocated: then it frees them.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes memory back that no graph holds any more.
pub(crate) trait Reclaim: Send + Sync {
    /// `live`: a launch allocated it, and nothing freed it since.
    fn reclaim(&self, address: u64, live: bool);
}

/// The memory of an allocation node.
pub(crate) struct GraphMemory {
    pub address: u64,
    pub size: u64,
    /// A launch allocated it, and nothing freed it since.
    live: AtomicBool,
    /// The same as of the calls that were made, whether or not the device has come
    /// there.
    owed: AtomicBool,
    owner: Weak<dyn Reclaim>,
}

impl GraphMemory {
    /// Memory that no launch has allocated yet.
    pub fn new(address: u64, size: u64, owner: Weak<dyn Reclaim>) -> GraphMemory {
        GraphMemory {
            address,
            size,
            live: AtomicBool::new(false),
            owed: AtomicBool::new(false),
            owner,
        }
    }

    /// Whether a call that allocates it was made, and none since that frees it.
    pub fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Acquire)
    }

    /// A call is made that allocates, or frees.
    pub fn set_owed(&self, owed: bool) {
        self.owed.store(owed, Ordering::Release);
    }

    /// The node is executed: it allocates, or frees.
    pub fn set_live(&self, live: bool) {
        self.live.store(live, Ordering::Release);
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.reclaim(self.address, *self.live.get_mut());
        }
    }
}
