//! Which streams are being captured.

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long the begin of a capture waits for calls that would end it. They look for
/// captures as they start; one that takes longer than this is past that, and may take as
/// long as kernels run, which may themselves wait for the thread that begins.
const WAITS: Duration = Duration::from_millis(10);

/// Streams whose capture was begun.
#[derive(Default)]
pub struct Captures {
    /// Read by who makes calls that would end a capture, written by who begins one.
    gate: RwLock<()>,
    /// By handle. A handle that means different streams in different threads is
    /// in here once for each.
    streams: Mutex<Vec<u64>>,
    count: AtomicUsize,
}

/// That no capture begins; see [`Captures::outside`].
pub struct Outside<'a> {
    _held: RwLockReadGuard<'a, ()>,
}

impl Captures {
    /// Whether any stream is being captured.
    pub fn is_active(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    /// Leave to make calls that would end a capture, such as to wait for the whole device;
    /// `None` while any stream is being captured. None begins while the leave is held, for
    /// as long as such a call looks for captures.
    pub fn outside(&self) -> Option<Outside<'_>> {
        // A begin that waits is no obstacle: a call that is made with a leave may itself
        // ask for one.
        let held = self.gate.read_recursive();
        (!self.is_active()).then_some(Outside { _held: held })
    }

    /// Begins the capture of a stream: `call` asks the device for it, and returns whether
    /// it did.
    pub fn begin(&self, stream: u64, call: impl FnOnce() -> bool) {
        let _alone = self.gate.try_write_for(WAITS);
        if call() {
            self.begun(stream);
        }
    }

    fn begun(&self, stream: u64) {
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
