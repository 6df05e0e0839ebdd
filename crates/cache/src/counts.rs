//! What a cache has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often what happened, in this process.
#[derive(Debug, Default)]
pub struct Counts {
    /// Results that were found.
    pub found: AtomicU64,
    /// Results that were not there.
    pub missing: AtomicU64,
    /// Files that were damaged, and were removed.
    pub damaged: AtomicU64,
    /// Results that were written.
    pub written: AtomicU64,
    /// Results that could not be written.
    pub not_written: AtomicU64,
    /// Files that had to go, for the size of the folder.
    pub evicted: AtomicU64,
}

pub(crate) fn count(which: &AtomicU64) {
    which.fetch_add(1, Ordering::Relaxed);
}
