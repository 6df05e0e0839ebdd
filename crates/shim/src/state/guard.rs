//! What is known of the device and of kernels that run beside the guard
//! (`--protect watch`). It is asked for once.

use parking_lot::RwLock;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// A kernel, the threads of a block, and its dynamic shared memory.
pub type Shape = (u64, u32, u32);

/// What was found out.
#[derive(Default)]
pub struct Guard {
    /// Blocks that a multiprocessor takes at once.
    places: RwLock<HashMap<Shape, u64>>,
    /// Kernels that were launched before.
    seen: RwLock<HashSet<u64>>,
    /// The most local memory that a thread of one of them has.
    most_local: AtomicI32,
    multiprocessors: OnceLock<Option<u64>>,
    loads_lazily: OnceLock<bool>,
}

impl Guard {
    /// Blocks of a shape that a multiprocessor takes at once.
    pub fn places(&self, shape: Shape, ask: impl FnOnce() -> u64) -> u64 {
        let known = self.places.read().get(&shape).copied();
        known.unwrap_or_else(|| {
            let each = ask();
            self.places.write().insert(shape, each);
            each
        })
    }

    /// Whether this is a kernel's first launch, which it is not any more.
    pub fn is_first(&self, kernel: u64) -> bool {
        if self.seen.read().contains(&kernel) {
            return false;
        }
        self.seen.write().insert(kernel);
        true
    }

    /// Whether a kernel's threads have more local memory than those of any
    /// before it.
    pub fn needs_more_local(&self, bytes: i32) -> bool {
        self.most_local.fetch_max(bytes, Ordering::Relaxed) < bytes
    }

    /// Code has gone, and handles may come again: what is known of kernels is
    /// not true any more.
    pub fn forget_kernels(&self) {
        self.seen.write().clear();
        self.places.write().clear();
        self.most_local.store(0, Ordering::Relaxed);
    }

    /// Multiprocessors of the device that was used first.
    pub fn multiprocessors(&self, ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
        *self.multiprocessors.get_or_init(ask)
    }

    /// Whether the driver loads a kernel's code at its first launch.
    pub fn loads_lazily(&self, ask: impl FnOnce() -> bool) -> bool {
        *self.loads_lazily.get_or_init(ask)
    }
}
