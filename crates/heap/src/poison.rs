//! Bytes of live buffers that the program has declared not to be accessed
//! (`ringfence_poison`), and what shadow bytes say about them.
//!
//! A shadow byte says how many bytes from the start of its block are addressable.
//! So a block is as the program says if nothing after its first poisoned byte is
//! addressable; else it is addressable up to the last byte that is. A check never
//! fails for a byte that is not poisoned.

use crate::shadow::Run;
use model::layout::shadow::Encoding;
use model::{DeviceAddress, Extent};
use std::collections::BTreeMap;

/// Poisoned bytes, in ranges that do not touch.
#[derive(Clone, Debug, Default)]
pub struct Poison {
    /// Ends by first byte.
    ranges: BTreeMap<u64, u64>,
}

impl Poison {
    /// Whether nothing is poisoned.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a byte is.
    pub fn holds(&self, address: DeviceAddress) -> bool {
        self.range_at(address.0).is_some()
    }

    /// The range that holds a byte.
    fn range_at(&self, address: u64) -> Option<(u64, u64)> {
        let (start, end) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some((*start, *end))
    }

    /// The poisoned ranges.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        self.ranges.iter().map(|(start, end)| Extent {
            base: DeviceAddress(*start),
            size: end - start,
        })
    }

    /// Poisons bytes.
    pub fn add(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.base.0, extent.base.0.saturating_add(extent.size));
        if start == end {
            return;
        }
        // With those that it touches.
        while let Some((at, last)) = self.ranges.range(..=end).next_back()
            && *last >= start
        {
            (start, end) = (start.min(*at), end.max(*last));
            let at = *at;
            self.ranges.remove(&at);
        }
        self.ranges.insert(start, end);
    }

    /// Bytes are not poisoned any more. Returns whether one was.
    pub fn remove(&mut self, extent: Extent) -> bool {
        let (start, end) = (extent.base.0, extent.base.0.saturating_add(extent.size));
        let mut any = false;
        while let Some((at, last)) = self.ranges.range(..end).next_back()
            && *last > start
        {
            let (at, last) = (*at, *last);
            self.ranges.remove(&at);
            if last > end {
                self.ranges.insert(end, last);
            }
            if at < start {
                self.ranges.insert(at, start);
            }
            any = true;
        }
        any
    }

    /// The shadow of those blocks of a buffer that a part of it touches. The buffer
    /// starts with a block.
    pub fn runs(&self, encoding: Encoding, buffer: Extent, part: Extent) -> Vec<Run> {
        let block = encoding.block();
        let end = buffer.end().0.min(part.end().0);
        let mut at = buffer.base.0.max(part.base.0) & !(block - 1);
        let mut runs = Vec::new();
        while at < end {
            let (value, until) = self.blocks_from(encoding, buffer, at);
            // Whole blocks.
            let until = until.min(end).next_multiple_of(block);
            runs.push(Run {
                at: encoding.shadow_of(at),
                count: (until - at) >> encoding.shift(),
                value,
            });
            at = until;
        }
        runs
    }

    /// The value of the block at an address, and where the blocks after it that
    /// have the same end.
    fn blocks_from(&self, encoding: Encoding, buffer: Extent, at: u64) -> (u8, u64) {
        let block = encoding.block();
        let last = buffer.end().0 & !(block - 1);
        let until = match self.range_at(at) {
            Some((_, end)) if end >= buffer.end().0 => return (0, !(block - 1)),
            Some((_, end)) => end & !(block - 1),
            None => {
                let next = self.ranges.range(at..).next();
                next.map_or(last, |(start, _)| (start & !(block - 1)).min(last))
            }
        };
        if until > at {
            let value = match self.range_at(at) {
                Some(_) => 0,
                None => encoding.whole(),
            };
            return (value, until);
        }
        // A block of its own: up to its last byte that is addressable.
        let mut end = (at + block).min(buffer.end().0);
        while end > at
            && let Some((start, _)) = self.range_at(end - 1)
        {
            end = start.max(at);
        }
        (encoding.value(end - at), at + block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::passes;
    use proptest::prelude::*;

    const BASE: u64 = 0x7f00_0000_0000;

    fn extent(from: u64, to: u64) -> Extent {
        Extent {
            base: DeviceAddress(BASE + from),
            size: to - from,
        }
    }

    #[test]
    fn ranges_that_touch_are_one_and_holes_split_them() {
        let mut poison = Poison::default();
        poison.add(extent(0, 10));
        poison.add(extent(20, 30));
        poison.add(extent(10, 20));
        assert_eq!(poison.iter().collect::<Vec<_>>(), [extent(0, 30)]);
        assert!(poison.remove(extent(5, 6)));
        assert!(!poison.remove(extent(5, 6)));
        let parts = [extent(0, 5), extent(6, 30)];
        assert_eq!(poison.iter().collect::<Vec<_>>(), parts);
        assert!(poison.remove(extent(0, 100)) && poison.is_empty());
        poison.add(extent(7, 7));
        assert!(poison.is_empty());
    }

    proptest! {
        /// Against one flag a byte: no byte that may be accessed fails a check, and
        /// in a block without one after a poisoned byte, each poisoned byte does.
        #[test]
        fn agrees_with_one_flag_a_byte(
            size in 1u64..2000,
            steps in prop::collection::vec((any::<bool>(), 0u64..2000, 0u64..900), 1..20),
        ) {
            let buffer = extent(0, size);
            for encoding in Encoding::ALL {
                let mut poison = Poison::default();
                let mut flags = vec![false; size as usize];
                let blocks = size.div_ceil(encoding.block());
                let mut shadow: Vec<u8> = (0..blocks)
                    .map(|n| encoding.value(size - n * encoding.block()))
                    .collect();
                for &(poisons, from, bytes) in &steps {
                    let (from, to) = (from.min(size), (from + bytes).min(size));
                    let part = extent(from, to);
                    match poisons {
                        true => poison.add(part),
                        false => _ = poison.remove(part),
                    }
                    flags[from as usize..to as usize].fill(poisons);
                    for run in poison.runs(encoding, buffer, part) {
                        let first = (run.at - encoding.shadow_of(BASE)) as usize;
                        shadow[first..first + run.count as usize].fill(run.value);
                    }
                }
                let marked = flags.iter().enumerate().filter(|(_, flag)| **flag);
                prop_assert!(marked.clone().all(|(n, _)| poison.holds(DeviceAddress(BASE + n as u64))));
                let total: u64 = poison.iter().map(|range| range.size).sum();
                prop_assert_eq!(total, marked.count() as u64);
                let value = |address: u64| shadow[((address - BASE) / encoding.block()) as usize];
                let holds = |address: u64| (BASE..BASE + size).contains(&address);
                for (n, &is_poisoned) in flags.iter().enumerate() {
                    let address = BASE + n as u64;
                    let passes = passes(encoding, value, holds, (address, 1));
                    let block = n as u64 / encoding.block() * encoding.block();
                    let end = (block + encoding.block()).min(size);
                    let is_last = flags[n..end as usize].iter().all(|flag| *flag);
                    // The lookup tables know nothing of poison.
                    let is_first = n as u64 == block && encoding == Encoding::Block256;
                    let is_found = is_poisoned && is_last && !is_first;
                    prop_assert!(is_poisoned || passes, "{encoding:?} {n}");
                    prop_assert!(!(is_found && passes), "{encoding:?} {n}");
                }
            }
        }
    }
}
