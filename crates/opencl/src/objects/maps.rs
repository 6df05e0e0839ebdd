//! Maps of buffers that hold canaries, too.

use crate::objects::block::Block;
use crate::platform::events::{COMPLETE, Event, status};
use heap::canary::Side;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A map that holds canaries.
pub struct Mapped {
    /// The first mapped byte, as the platform knows the map.
    pub base: usize,
    /// Which byte of the block that is.
    pub from: usize,
    /// One past the last.
    pub to: usize,
    /// Of the map.
    pub event: Event,
}

impl Mapped {
    /// The mapped bytes of a canary; `None`: they are not all mapped, or not yet.
    pub fn canary(&self, block: &Block, side: Side) -> Option<&[u8]> {
        let start = block.layout.canary(side) as usize;
        let end = start + block.layout.length() as usize;
        if start < self.from || end > self.to || status(self.event.raw()) != Some(COMPLETE) {
            return None;
        }
        let first = (self.base + start - self.from) as *const u8;
        // SAFETY: the platform has mapped these bytes, and nobody unmaps them
        // before this map is forgotten; the program has no right to them.
        Some(unsafe { std::slice::from_raw_parts(first, end - start) })
    }
}

/// Maps by the program's object and pointer; one pointer may be that of several.
#[derive(Default)]
pub struct Maps(Mutex<BTreeMap<(usize, usize), Vec<Mapped>>>);

impl Maps {
    /// Remembers a map.
    pub fn keep(&self, object: usize, pointer: usize, mapped: Mapped) {
        let mut maps = self.0.lock();
        maps.entry((object, pointer)).or_default().push(mapped);
    }

    /// Forgets the latest map of an object at a pointer.
    pub fn take(&self, object: usize, pointer: usize) -> Option<Mapped> {
        let mut maps = self.0.lock();
        let key = (object, pointer);
        let list = maps.get_mut(&key)?;
        let known = list.pop();
        if list.is_empty() {
            maps.remove(&key);
        }
        known
    }

    /// Forgets the maps of an object that is gone.
    pub fn forget(&self, object: usize) {
        let mut maps = self.0.lock();
        let all = (object, 0)..=(object, usize::MAX);
        let keys: Vec<_> = maps.range(all).map(|(key, _)| *key).collect();
        let gone: Vec<_> = keys.iter().filter_map(|key| maps.remove(key)).collect();
        drop(maps);
        // Their events are released without the lock.
        drop(gone);
    }
}
