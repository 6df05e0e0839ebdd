//! Which parts of the staging area are in use: the client's own list, in its
//! own memory.

use crate::staging::ALIGN;
use std::collections::BTreeMap;

/// A list of chunks. Each starts at a multiple of [`ALIGN`] bytes.
#[derive(Debug)]
pub struct Chunks {
    /// Free ranges: first byte and bytes. No two touch.
    free: BTreeMap<u64, u64>,
    /// Chunks in use: first byte and bytes, whole multiples of [`ALIGN`].
    used: BTreeMap<u64, u64>,
}

/// There is no chunk in use at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no chunk at offset {0:#x} is in use")]
pub struct NotInUse(pub u64);

impl Chunks {
    /// An area of so many bytes, all free.
    pub fn new(size: u64) -> Chunks {
        let size = size - size % ALIGN;
        let free = (size > 0).then_some((0, size)).into_iter().collect();
        Chunks {
            free,
            used: BTreeMap::new(),
        }
    }

    /// Takes `length` bytes and returns their offset; `None` if no free range
    /// is long enough.
    pub fn take(&mut self, length: u64) -> Option<u64> {
        // A chunk of no bytes has a place, too, so that it can be given back.
        let bytes = length.max(1).checked_next_multiple_of(ALIGN)?;
        let (&offset, &range) = self.free.iter().find(|(_, range)| **range >= bytes)?;
        self.free.remove(&offset);
        if range > bytes {
            self.free.insert(offset + bytes, range - bytes);
        }
        self.used.insert(offset, bytes);
        Some(offset)
    }

    /// Gives a chunk back by its offset.
    ///
    /// # Errors
    ///
    /// If none is in use there.
    pub fn give_back(&mut self, offset: u64) -> Result<(), NotInUse> {
        let mut bytes = self.used.remove(&offset).ok_or(NotInUse(offset))?;
        let mut start = offset;
        if let Some(behind) = self.free.remove(&(offset + bytes)) {
            bytes += behind;
        }
        if let Some((&before, &range)) = self.free.range(..offset).next_back()
            && before + range == offset
        {
            start = before;
            bytes += range;
        }
        self.free.insert(start, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_in_use_is_not_given_back() {
        let mut chunks = Chunks::new(4096);
        assert_eq!(chunks.give_back(0), Err(NotInUse(0)));
        let offset = chunks.take(100).unwrap();
        assert_eq!(chunks.give_back(offset + 64), Err(NotInUse(offset + 64)));
        assert_eq!(chunks.give_back(offset), Ok(()));
        assert_eq!(chunks.give_back(offset), Err(NotInUse(offset)));
        assert_eq!(chunks.take(u64::MAX), None);
        assert_eq!(chunks.take(4097), None);
        assert_eq!(chunks.take(4096), Some(0));
        assert_eq!(chunks.take(0), None);
        assert_eq!(Chunks::new(63).take(1), None);
    }

    proptest! {
        /// Chunks never overlap, lie in the area, and all of it is free again
        /// at the end, in one piece.
        #[test]
        fn chunks_do_not_overlap_and_none_is_lost(
            steps in prop::collection::vec((any::<bool>(), 0u64..3000), 1..200),
        ) {
            const SIZE: u64 = 16 << 10;
            let mut chunks = Chunks::new(SIZE);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (take, number) in steps {
                if take {
                    let Some(offset) = chunks.take(number) else {
                        // First fit fails only where no gap is long enough.
                        let mut ends: Vec<_> = live.clone();
                        ends.sort_unstable();
                        let mut from = 0;
                        for (offset, length) in ends.into_iter().chain([(SIZE, 0)]) {
                            prop_assert!(offset - from < number.max(1).next_multiple_of(ALIGN));
                            from = offset + length.max(1).next_multiple_of(ALIGN);
                        }
                        continue;
                    };
                    prop_assert!(offset.is_multiple_of(ALIGN) && offset + number <= SIZE);
                    for (other, length) in &live {
                        let apart = offset + number.max(1) <= *other || other + length.max(&1) <= offset;
                        prop_assert!(apart);
                    }
                    live.push((offset, number));
                } else if !live.is_empty() {
                    let (offset, _) = live.swap_remove(number as usize % live.len());
                    prop_assert_eq!(chunks.give_back(offset), Ok(()));
                }
            }
            for (offset, _) in live {
                prop_assert_eq!(chunks.give_back(offset), Ok(()));
            }
            prop_assert_eq!(chunks.take(SIZE), Some(0));
        }
    }
}
