//! Backings: Ringfence's own buffers, of which images are made instead of the
//! program's buffer, on platforms that make no images of parts of buffers.

use crate::objects::access::Access;
use crate::platform::events::Chain;
use crate::platform::handles::MemObject;
use crate::sys::*;
use parking_lot::Mutex;
use std::sync::Arc;

/// A backing of images.
pub struct Backing {
    memory: MemObject,
    pub bytes: usize,
    /// Of the last command that used it.
    last: Mutex<Option<Arc<Chain>>>,
    /// Maps of its images, by address, and the host's access there.
    maps: Mutex<Vec<(usize, Access)>>,
}

impl Backing {
    /// A backing that no command has used.
    pub fn new(memory: MemObject, bytes: usize) -> Backing {
        Backing {
            memory,
            bytes,
            last: Mutex::default(),
            maps: Mutex::default(),
        }
    }

    /// No image is made of it any more: Ringfence holds no queue.
    pub fn rest(&self) {
        let last = self.last.lock().take();
        drop(last);
    }

    /// Its handle.
    pub fn memory(&self) -> cl_mem {
        self.memory.raw()
    }

    /// What the last command that used it holds.
    pub fn last(&self) -> Option<Arc<Chain>> {
        self.last.lock().clone()
    }

    /// Says until when it is used.
    pub fn used_until(&self, events: Arc<Chain>) {
        let before = self.last.lock().replace(events);
        // Its events are released without the lock.
        drop(before);
    }

    /// Records a map of one of its images.
    pub fn keep_map(&self, pointer: usize, access: Access) {
        self.maps.lock().push((pointer, access));
    }

    /// Removes a map; returns the access that it gave to the host.
    pub fn take_map(&self, pointer: usize) -> Option<Access> {
        let mut maps = self.maps.lock();
        let at = maps.iter().rposition(|(at, _)| *at == pointer)?;
        Some(maps.remove(at).1)
    }
}
