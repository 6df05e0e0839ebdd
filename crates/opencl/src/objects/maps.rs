//! Maps of buffers that hold canaries, too.

use crate::objects::block::Block;
use crate::platform::events::{COMPLETE, Event, status};
use heap::canary::Side;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A map that holds canaries.
pub struct Mapped {
    /// The first mapped byte, by which the platform identifies the map.
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
        // SAFETY: the platform has mapped these bytes, and they stay mapped
        // until this map is removed; the program may not access them.
        Some(unsafe { std::slice::from_raw_parts(first, end - start) })
    }
}

/// Maps by the program's object and pointer; one pointer may be that of several.
#[derive(Default)]
pub struct Maps(Mutex<BTreeMap<(usize, usize), Vec<Mapped>>>);

impl Maps {
    /// Adds a map.
    pub fn keep(&self, object: usize, pointer: usize, mapped: Mapped) {
        let mut maps = self.0.lock();
        maps.entry((object, pointer)).or_default().push(mapped);
    }

    /// Removes the latest map of an object at a pointer.
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

    /// Removes the maps of an object that was freed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::block::Memory;
    use crate::platform::fake::Fake;
    use heap::canary::{Key, Layout};

    fn mapped(fake: &Fake, base: usize, (from, to): (usize, usize), status: i32) -> Mapped {
        Mapped {
            base,
            from,
            to,
            event: Event::of(fake.event(status)).unwrap(),
        }
    }

    #[test]
    fn only_canaries_that_are_mapped_are_seen() {
        let fake = Fake::new();
        let layout = Layout::around(100, 64, 16).unwrap();
        let key = Key::of_byte(0xab);
        let block = Block::new(Memory::Buffer(1), layout, key);
        let mut bytes = vec![0u8; layout.total() as usize];
        let (start, length) = (layout.start() as usize, layout.length() as usize);
        layout.fill(&key, Side::Before, &mut bytes[..length]);
        let base = bytes.as_ptr() as usize;
        let total = bytes.len();
        let all = mapped(&fake, base, (0, total), COMPLETE);
        assert_eq!(all.canary(&block, Side::Before).unwrap().len(), length);
        assert_eq!(all.canary(&block, Side::Before), Some(&bytes[..length]));
        assert!(all.canary(&block, Side::After).is_some());
        // From the buffer's own start on, up to the byte before the end.
        let end = layout.canary(Side::After) as usize + length;
        let some = mapped(&fake, base, (start, end - 1), COMPLETE);
        assert!(some.canary(&block, Side::Before).is_none());
        assert!(some.canary(&block, Side::After).is_none());
        // Not mapped yet, or never.
        for status in [1, -5] {
            let other = mapped(&fake, base, (0, total), status);
            assert!(other.canary(&block, Side::Before).is_none(), "{status}");
        }
    }

    #[test]
    fn the_latest_map_at_a_pointer_ends_first() {
        let fake = Fake::new();
        let maps = Maps::default();
        maps.keep(1, 0x10, mapped(&fake, 0x10, (0, 8), COMPLETE));
        maps.keep(1, 0x10, mapped(&fake, 0x10, (0, 16), COMPLETE));
        maps.keep(1, 0x20, mapped(&fake, 0x20, (0, 8), COMPLETE));
        maps.keep(2, 0x10, mapped(&fake, 0x10, (0, 8), COMPLETE));
        assert_eq!(maps.take(1, 0x10).map(|map| map.to), Some(16));
        assert_eq!(maps.take(1, 0x10).map(|map| map.to), Some(8));
        assert!(maps.take(1, 0x10).is_none());
        maps.forget(1);
        assert!(maps.take(1, 0x20).is_none());
        assert_eq!(fake.events(), 1, "the events of removed maps are released");
        assert!(maps.take(2, 0x10).is_some());
    }
}
