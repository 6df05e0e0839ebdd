//! Addresses for allocations: a range for each, with a gap on either side.
//!
//! ```text
//! |gap| range A  |gap A| range B |gap B|  never given out yet …
//! ```
//!
//! A range is taken from addresses that were never given out, while there are
//! any. After that, ranges that were freed are given out again, oldest first,
//! and counted: an address that was freed can mean another allocation only then.

use model::{DeviceAddress, Extent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// See the module's header.
#[derive(Clone, Debug)]
pub struct Ranges {
    all: Extent,
    granule: u64,
    /// First byte that was never given out.
    fresh: u64,
    /// Bytes of live ranges with the gaps after them, by first byte.
    live: BTreeMap<u64, u64>,
    /// Freed ranges with their gaps, oldest first.
    quarantine: VecDeque<(u64, u64)>,
    /// Those that have left the quarantine, as first byte and bytes, and as
    /// bytes and first byte. None of them touches another.
    reusable: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    reused: u64,
}

impl Ranges {
    /// Nothing is given out yet. Ranges start at multiples of the granule, a
    /// power of two, of which `all` starts at a multiple.
    pub fn new(all: Extent, granule: u64) -> Ranges {
        Ranges {
            all,
            granule,
            // The gap before the first range.
            fresh: all.base.0.saturating_add(granule),
            live: BTreeMap::new(),
            quarantine: VecDeque::new(),
            reusable: BTreeMap::new(),
            by_size: BTreeSet::new(),
            reused: 0,
        }
    }

    /// All addresses that may be given out.
    pub fn all(&self) -> Extent {
        self.all
    }

    /// Live ranges.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether no range is live.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// How many ranges were given out that hold addresses which had been given
    /// out before.
    pub fn reused(&self) -> u64 {
        self.reused
    }

    /// A range of `size` bytes, with a gap of at least `gap` bytes after it; both
    /// are rounded up to granules, and no gap is smaller than one. `None`: no
    /// addresses are left, or `size` is 0.
    pub fn take(&mut self, size: u64, gap: u64) -> Option<Extent> {
        let size = size.checked_next_multiple_of(self.granule)?;
        let gap = gap
            .checked_next_multiple_of(self.granule)?
            .max(self.granule);
        let whole = size.checked_add(gap).filter(|_| size != 0)?;
        let base = self.take_fresh(whole).or_else(|| self.take_old(whole))?;
        self.live.insert(base, whole);
        Some(Extent {
            base: DeviceAddress(base),
            size,
        })
    }

    fn take_fresh(&mut self, whole: u64) -> Option<u64> {
        let end = self.fresh.checked_add(whole)?;
        (end <= self.all.end().0).then(|| std::mem::replace(&mut self.fresh, end))
    }

    /// Takes from what was freed: the smallest part that is large enough of those
    /// that have left the quarantine, which ranges leave, oldest first, until
    /// there is one.
    fn take_old(&mut self, whole: u64) -> Option<u64> {
        loop {
            let found = self.by_size.range((whole, 0)..).next().copied();
            if let Some((size, base)) = found {
                self.remove(base, size);
                if size > whole {
                    self.insert(base + whole, size - whole);
                }
                self.reused += 1;
                return Some(base);
            }
            let (base, size) = self.quarantine.pop_front()?;
            self.join(base, size);
        }
    }

    /// Adds a part to those that may be given out again, as one with those that
    /// it touches.
    fn join(&mut self, mut base: u64, mut size: u64) {
        if let Some(above) = self.reusable.get(&(base + size)).copied() {
            self.remove(base + size, above);
            size += above;
        }
        let below = self.reusable.range(..base).next_back();
        if let Some((at, length)) = below.map(|(at, length)| (*at, *length))
            && at + length == base
        {
            self.remove(at, length);
            base = at;
            size += length;
        }
        self.insert(base, size);
    }

    fn insert(&mut self, base: u64, size: u64) {
        self.reusable.insert(base, size);
        self.by_size.insert((size, base));
    }

    fn remove(&mut self, base: u64, size: u64) {
        self.reusable.remove(&base);
        self.by_size.remove(&(size, base));
    }

    /// The range that starts here is freed. Returns whether one does.
    pub fn put(&mut self, base: DeviceAddress) -> bool {
        let Some(whole) = self.live.remove(&base.0) else {
            return false;
        };
        self.quarantine.push_back((base.0, whole));
        true
    }

    /// The range that starts here was never used: it is given out next where that
    /// can be, so that trying costs no addresses.
    pub fn untake(&mut self, base: DeviceAddress) {
        match self.live.get(&base.0) {
            Some(whole) if base.0 + whole == self.fresh => {
                self.live.remove(&base.0);
                self.fresh = base.0;
            }
            _ => {
                self.put(base);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRANULE: u64 = 2 << 20;
    const BASE: u64 = 0x4100_0000_0000;

    fn ranges(granules: u64) -> Ranges {
        let all = Extent {
            base: DeviceAddress(BASE),
            size: granules * GRANULE,
        };
        Ranges::new(all, GRANULE)
    }

    #[test]
    fn addresses_are_not_given_out_again_while_others_are_left() {
        // A gap, and three ranges with theirs.
        let mut ranges = ranges(7);
        let [a, b, c] = [(); 3].map(|()| ranges.take(1, 0).unwrap());
        assert_eq!(a.base.0, BASE + GRANULE);
        assert_eq!(b.base.0, BASE + 3 * GRANULE);
        assert!(ranges.put(b.base) && ranges.put(a.base));
        assert!(!ranges.put(a.base));
        assert_eq!(ranges.reused(), 0);
        // The oldest first.
        assert_eq!(ranges.take(GRANULE, 0), Some(b));
        assert_eq!(ranges.reused(), 1);
        assert!(ranges.put(c.base));
        assert_eq!(ranges.take(1, 1), Some(a));
        assert_eq!(ranges.take(1, 1), Some(c));
        assert_eq!((ranges.take(1, 1), ranges.reused()), (None, 3));
        // Parts that touch are one.
        for range in [a, b, c] {
            assert!(ranges.put(range.base));
        }
        let whole = ranges.take(5 * GRANULE, GRANULE);
        assert_eq!(whole.map(|range| range.base), Some(a.base));
        assert!(ranges.put(a.base) && ranges.is_empty());
    }

    #[test]
    fn what_was_not_used_is_given_out_next() {
        let mut ranges = ranges(9);
        let first = ranges.take(3 * GRANULE, 0).unwrap();
        ranges.untake(first.base);
        let second = ranges.take(1, 0).unwrap();
        assert_eq!((second.base, ranges.reused()), (first.base, 0));
        let third = ranges.take(1, 0).unwrap();
        ranges.untake(second.base);
        assert_ne!(ranges.take(1, 0).map(|range| range.base), Some(second.base));
        assert_eq!((ranges.len(), third.size), (2, GRANULE));
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let mut ranges = ranges(5);
        for size in [0, 5 * GRANULE, u64::MAX, u64::MAX - GRANULE] {
            assert_eq!(ranges.take(size, 0), None, "{size}");
        }
        assert_eq!(ranges.take(1, u64::MAX - 1), None);
        assert!(ranges.take(2 * GRANULE, 2 * GRANULE).is_some());
        assert_eq!(ranges.take(1, 0), None);
    }

    #[test]
    fn a_million_small_ones_take_little_time() {
        let mut ranges = ranges(1 << 20);
        let started = std::time::Instant::now();
        let mut kept = VecDeque::new();
        for number in 0..1_000_000u64 {
            kept.push_back(ranges.take(64, 0).unwrap());
            // Freed out of order, so that parts do not simply join.
            if kept.len() > 1000 {
                let at = (number * 7919 % 1000) as usize;
                let range = kept.swap_remove_back(at).unwrap();
                assert!(ranges.put(range.base));
            }
        }
        assert!(ranges.reused() > 400_000);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn ranges_lie_apart(
            granules in 4..200u64,
            steps in prop::collection::vec((any::<bool>(), 1..8 * GRANULE, 0..3 * GRANULE, any::<prop::sample::Index>()), 1..300),
        ) {
            let mut ranges = ranges(granules);
            let all = ranges.all();
            let mut live: Vec<Extent> = Vec::new();
            let mut given: BTreeMap<u64, u64> = BTreeMap::new();
            let mut reused = 0;
            for (takes, size, gap, which) in steps {
                if takes || live.is_empty() {
                    let Some(range) = ranges.take(size, gap) else { continue };
                    prop_assert!(range.base.0.is_multiple_of(GRANULE) && range.size >= size);
                    // A granule is free on either side.
                    prop_assert!(all.base.0 + GRANULE <= range.base.0);
                    prop_assert!(range.end().0 + GRANULE <= all.end().0);
                    for other in &live {
                        let apart = other.end().0 + GRANULE <= range.base.0
                            || range.end().0 + GRANULE <= other.base.0;
                        prop_assert!(apart, "{range:?} {other:?}");
                    }
                    let before = given.range(..range.end().0).next_back();
                    reused += u64::from(before.is_some_and(|(_, end)| *end > range.base.0));
                    let starts: Vec<u64> = given.range(range.base.0..range.end().0).map(|(base, _)| *base).collect();
                    for start in starts {
                        given.remove(&start);
                    }
                    given.insert(range.base.0, range.end().0);
                    live.push(range);
                } else {
                    let range = live.swap_remove(which.index(live.len()));
                    prop_assert!(ranges.put(range.base));
                }
                prop_assert_eq!(ranges.len(), live.len());
            }
            // Of two parts that are given out together one may be a gap.
            prop_assert!(ranges.reused() >= reused);
        }
    }
}
