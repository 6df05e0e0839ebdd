//! Bytes that the program declares not to be accessed, and when that takes effect:
//! kernels that were launched before may still use them, so not before the host has
//! waited for all streams into which something was launched.

use crate::streams::StreamName;
use heap::poison::Poison;
use model::{DeviceAddress, Extent};
use rustc_hash::FxHashMap;
use std::thread::{self, ThreadId};

/// See the module's header.
#[derive(Default)]
pub(super) struct Poisoned {
    /// In effect.
    now: Poison,
    /// To take effect when kernels have been waited for.
    soon: Poison,
    /// What was in effect at some time.
    ever: Poison,
    /// Streams that were launched into and not waited for, with their contexts and
    /// the number of the last launch. `None`: a stream that is not known.
    busy: FxHashMap<Option<StreamName>, (u64, u64)>,
    /// Launches so far.
    launches: u64,
    /// How many there were when a thread began to wait.
    waiting: FxHashMap<ThreadId, u64>,
}

impl Poisoned {
    /// What is in effect.
    pub fn now(&self) -> &Poison {
        &self.now
    }

    /// Whether a byte was poisoned at some time.
    pub fn was(&self, address: DeviceAddress) -> bool {
        self.ever.holds(address)
    }

    /// Something was launched in a context.
    pub fn launched(&mut self, stream: Option<StreamName>, context: u64) {
        self.launches += 1;
        self.busy.insert(stream, (context, self.launches));
    }

    /// Whether there is something that a wait may end.
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// This thread is about to wait.
    pub fn waits(&mut self) {
        let thread = thread::current().id();
        self.waiting.insert(thread, self.launches);
    }

    /// This thread has waited since [`Poisoned::waits`]: for a stream, or (`None`)
    /// for all of a context. Returns what takes effect now.
    pub fn waited(&mut self, stream: Option<StreamName>, context: u64) -> Vec<Extent> {
        let Some(launches) = self.waiting.remove(&thread::current().id()) else {
            return Vec::new();
        };
        self.busy.retain(|name, (of, last)| {
            let is_over = match stream {
                Some(_) => *name == stream,
                None => *of == context,
            };
            !is_over || *last > launches
        });
        self.settle()
    }

    /// What takes effect now.
    fn settle(&mut self) -> Vec<Extent> {
        if self.is_busy() || self.soon.is_empty() {
            return Vec::new();
        }
        let soon = std::mem::take(&mut self.soon);
        let parts: Vec<Extent> = soon.iter().collect();
        for part in &parts {
            self.now.add(*part);
            self.ever.add(*part);
        }
        parts
    }

    /// The program poisons bytes. Returns what takes effect now.
    pub fn add(&mut self, extent: Extent) -> Vec<Extent> {
        self.soon.add(extent);
        self.settle()
    }

    /// It takes that back. Returns whether a byte was poisoned.
    pub fn remove(&mut self, extent: Extent) -> bool {
        self.soon.remove(extent);
        self.now.remove(extent)
    }

    /// A buffer is new, or gone.
    pub fn forget(&mut self, extent: Extent) {
        self.remove(extent);
        self.ever.remove(extent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Option<StreamName> = Some(StreamName::Made(7));
    const OTHER: Option<StreamName> = Some(StreamName::Made(8));

    fn extent(base: u64) -> Extent {
        Extent {
            base: DeviceAddress(base),
            size: 16,
        }
    }

    #[test]
    fn kernels_that_run_are_waited_for() {
        let mut poisoned = Poisoned::default();
        assert_eq!(poisoned.add(extent(0x100)), [extent(0x100)]);
        poisoned.launched(STREAM, 1);
        poisoned.launched(OTHER, 1);
        assert_eq!(poisoned.add(extent(0x200)), []);
        poisoned.waits();
        assert_eq!(poisoned.waited(STREAM, 1), []);
        assert!(!poisoned.now().holds(DeviceAddress(0x200)));
        poisoned.waits();
        // Another context's streams are not waited for.
        assert_eq!(poisoned.waited(None, 2), []);
        poisoned.waits();
        assert_eq!(poisoned.waited(None, 1), [extent(0x200)]);
        assert!(poisoned.now().holds(DeviceAddress(0x20f)));
        assert!(!poisoned.is_busy());
    }

    #[test]
    fn what_is_launched_while_a_thread_waits_is_not_waited_for() {
        let mut poisoned = Poisoned::default();
        poisoned.launched(STREAM, 1);
        poisoned.waits();
        poisoned.launched(STREAM, 1);
        assert_eq!(poisoned.add(extent(0x100)), []);
        assert_eq!(poisoned.waited(STREAM, 1), []);
        assert!(poisoned.is_busy());
        // Nothing says when this wait began.
        assert_eq!(poisoned.waited(STREAM, 1), []);
    }

    #[test]
    fn what_was_taken_back_does_not_take_effect_and_is_known_until_the_buffer_goes() {
        let mut poisoned = Poisoned::default();
        poisoned.launched(None, 1);
        poisoned.add(extent(0x100));
        assert!(!poisoned.remove(extent(0x100)));
        poisoned.waits();
        assert_eq!(poisoned.waited(None, 1), []);
        assert!(!poisoned.was(DeviceAddress(0x100)));
        poisoned.add(extent(0x100));
        assert!(poisoned.remove(extent(0x100)) && poisoned.was(DeviceAddress(0x100)));
        poisoned.forget(extent(0x100));
        assert!(!poisoned.was(DeviceAddress(0x100)));
    }
}
