//! Numbers of threads, which are never used again, other than the system's.

use std::sync::atomic::{AtomicU64, Ordering};

/// The threads that have a number.
#[derive(Default)]
pub struct Threads {
    count: AtomicU64,
}

impl Threads {
    /// A number for a thread that has none; not 0.
    pub fn number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }
}
