//! Which streams are being captured.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Streams whose capture was begun.
#[derive(Default)]
pub struct Captures {
    /// By handle. A handle that means different streams in different threads is
    /// in here once for each.
    streams: Mutex<Vec<u64>>,
    count: AtomicUsize,
}

impl Captures {
    /// Whether any stream is being captured.
    pub fn is_active(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    /// The capture of a stream has begun.
    pub fn begin(&self, stream: u64) {
        let mut streams = self.streams.lock();
        streams.push(stream);
        self.count.store(streams.len(), Ordering::Release);
    }

    /// The capture of a stream has ended, or the stream itself.
    pub fn end(&self, stream: u64) {
        if !self.is_active() {
            return;
        }
        let mut streams = self.streams.lock();
        if let Some(position) = streams.iter().position(|handle| *handle == stream) {
            streams.swap_remove(position);
        }
        self.count.store(streams.len(), Ordering::Release);
    }
}
