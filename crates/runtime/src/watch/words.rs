//! The words that host and guard share (`model::layout::guard`).

use driver::HostMapping;
use model::layout::guard::STOP;

/// Words in memory that another party changes: the device, or, in the model,
/// another thread. Each word is written by one side only.
pub(crate) trait Words {
    /// What a word holds; what its writer wrote before it is visible after.
    fn load(&self, offset: u64) -> u64;
    /// Writes a word of the host's.
    fn store(&self, offset: u64, value: u64);
}

impl Words for HostMapping {
    fn load(&self, offset: u64) -> u64 {
        // Offsets are constants of the layout, inside the mapping.
        self.load_u64_acquire(offset).unwrap_or(0)
    }

    fn store(&self, offset: u64, value: u64) {
        self.store_u64_release(offset, value);
    }
}

/// Notifies slices up to this number to end. The caller serializes: the word
/// never falls.
pub(crate) fn stop(words: &impl Words, slice: u64) {
    words.store(STOP, slice);
}
