//! Freed allocations whose memory is not returned to the driver yet, so that
//! their addresses are not reused while a stale pointer may still be used.
//!
//! First in, first out, within a budget of bytes and of entries. The caller
//! that takes an entry out returns its memory to the driver and then reports
//! that. Until then its addresses still count as held, because the driver has
//! not released them.

use model::{DeviceAddress, Extent};
use std::collections::BTreeMap;

/// An allocation in the quarantine.
#[derive(Clone, Debug)]
pub struct Held<T> {
    /// Its bytes, as the program asked for them.
    pub extent: Extent,
    /// What it takes to give it back.
    pub note: T,
    /// Bytes that it counts for.
    pub cost: u64,
    /// Its place in the order, unique.
    ticket: u64,
}

/// Freed allocations, oldest first.
#[derive(Clone, Debug)]
pub struct Quarantine<T> {
    by_base: BTreeMap<u64, Held<T>>,
    /// Bases of the entries that were not taken out, by ticket.
    waiting: BTreeMap<u64, u64>,
    budget: u64,
    entries: usize,
    bytes: u64,
    next: u64,
}

impl<T: Clone> Quarantine<T> {
    /// An empty quarantine for at most `budget` bytes in `entries`
    /// allocations.
    pub fn new(budget: u64, entries: usize) -> Quarantine<T> {
        Quarantine {
            by_base: BTreeMap::new(),
            waiting: BTreeMap::new(),
            budget,
            entries,
            bytes: 0,
            next: 0,
        }
    }

    /// Whether an allocation of this cost can be held at all.
    pub fn accepts(&self, cost: u64) -> bool {
        cost <= self.budget && self.budget > 0 && self.entries > 0
    }

    /// Bytes of the entries that were not taken out.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Every allocation whose addresses are held.
    pub fn iter(&self) -> impl Iterator<Item = &Held<T>> {
        self.by_base.values()
    }

    /// Adds an allocation. Drops the entries that it overlaps: the driver has
    /// reused those addresses.
    pub fn hold(&mut self, extent: Extent, cost: u64, note: T) {
        self.forget_overlapping(extent);
        self.next += 1;
        let ticket = self.next;
        self.waiting.insert(ticket, extent.base.0);
        self.bytes += cost;
        self.by_base.insert(
            extent.base.0,
            Held {
                extent,
                note,
                cost,
                ticket,
            },
        );
    }

    /// Drops the entries that overlap an extent which the driver has allocated.
    pub fn forget_overlapping(&mut self, extent: Extent) {
        let stale: Vec<u64> = self
            .by_base
            .range(..extent.end().0)
            .rev()
            .take_while(|(_, held)| held.extent.end() > extent.base)
            .map(|(base, _)| *base)
            .collect();
        for base in stale {
            self.forget(base);
        }
    }

    fn forget(&mut self, base: u64) {
        if let Some(held) = self.by_base.remove(&base) {
            self.leave(&held);
        }
    }

    fn leave(&mut self, held: &Held<T>) {
        if self.waiting.remove(&held.ticket).is_some() {
            self.bytes -= held.cost;
        }
    }

    /// Takes out what exceeds the budget, oldest first. The caller returns each
    /// to the driver and then reports it to [`Quarantine::released`].
    pub fn surplus(&mut self) -> Vec<Held<T>> {
        let mut out = Vec::new();
        while (self.bytes > self.budget || self.waiting.len() > self.entries)
            && let Some((_, base)) = self.waiting.first_key_value()
            && let Some(held) = self.by_base.get(base).cloned()
        {
            self.leave(&held);
            out.push(held);
        }
        out
    }

    /// Takes out what matches, oldest first, as [`Quarantine::surplus`].
    pub fn take(&mut self, matches: impl Fn(&Held<T>) -> bool) -> Vec<Held<T>> {
        let out: Vec<Held<T>> = self
            .waiting
            .values()
            .filter_map(|base| self.by_base.get(base))
            .filter(|held| matches(held))
            .cloned()
            .collect();
        for held in &out {
            self.leave(held);
        }
        out
    }

    /// The memory of an entry that was taken out was returned to the driver.
    pub fn released(&mut self, held: &Held<T>) {
        let base = held.extent.base.0;
        if self
            .by_base
            .get(&base)
            .is_some_and(|now| now.ticket == held.ticket)
        {
            self.forget(base);
        }
    }

    /// Drops what matches without releasing it: it was freed with its context.
    pub fn drop_matching(&mut self, matches: impl Fn(&Held<T>) -> bool) {
        let gone: Vec<u64> = self
            .by_base
            .iter()
            .filter(|(_, held)| matches(held))
            .map(|(base, _)| *base)
            .collect();
        for base in gone {
            self.forget(base);
        }
    }

    /// The held allocation that a pointer belonged to: the one that has the
    /// address, else the one that it is one past the end of.
    pub fn find(&self, address: DeviceAddress) -> Option<&Held<T>> {
        let (_, held) = self.by_base.range(..=address.0).next_back()?;
        (address.0 - held.extent.base.0 <= held.extent.size).then_some(held)
    }

    /// The held allocation that starts here.
    pub fn at(&self, base: DeviceAddress) -> Option<&Held<T>> {
        self.by_base.get(&base.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(base: u64, size: u64) -> Extent {
        Extent {
            base: DeviceAddress(base),
            size,
        }
    }

    fn bases(held: &[Held<u32>]) -> Vec<u64> {
        held.iter().map(|held| held.extent.base.0).collect()
    }

    #[test]
    fn the_oldest_leaves_first_and_stays_known_until_released() {
        let mut quarantine = Quarantine::new(100, 8);
        for (base, note) in [(0x100, 1), (0x200, 2), (0x300, 3)] {
            quarantine.hold(extent(base, 40), 40, note);
        }
        let out = quarantine.surplus();
        assert_eq!(bases(&out), [0x100]);
        assert_eq!(quarantine.bytes(), 80);
        assert_eq!(quarantine.find(DeviceAddress(0x110)).unwrap().note, 1);
        quarantine.released(&out[0]);
        assert!(quarantine.find(DeviceAddress(0x110)).is_none());
        assert!(quarantine.surplus().is_empty());
        assert!(!quarantine.accepts(101));
    }

    #[test]
    fn a_late_release_does_not_hit_a_newer_entry_of_the_same_address() {
        let mut quarantine = Quarantine::new(10, 8);
        quarantine.hold(extent(0x100, 20), 20, 1);
        let out = quarantine.surplus();
        quarantine.hold(extent(0x100, 8), 8, 2);
        quarantine.released(&out[0]);
        assert_eq!(quarantine.at(DeviceAddress(0x100)).unwrap().note, 2);
        assert_eq!(quarantine.bytes(), 8);
    }

    proptest! {
        /// Against a plain list: order, budget, and what is known.
        #[test]
        fn agrees_with_a_list(
            operations in prop::collection::vec((0u8..5, 0u64..12, 1u64..30), 1..80),
        ) {
            let (budget, entries) = (100, 5);
            let mut quarantine = Quarantine::new(budget, entries);
            // Base, size, number, whether taken out.
            let mut list: Vec<(u64, u64, u32, bool)> = Vec::new();
            let mut number = 0;
            let mut out: Vec<Held<u32>> = Vec::new();
            for (what, slot, size) in operations {
                let new = extent(32 * slot + 32, size);
                match what {
                    0..=2 => {
                        number += 1;
                        quarantine.hold(new, size, number);
                        list.retain(|old| old.0 != new.base.0);
                        list.push((new.base.0, size, number, false));
                        let taken = quarantine.surplus();
                        let mut expected = Vec::new();
                        loop {
                            let waiting: Vec<_> = list.iter().filter(|old| !old.3).collect();
                            let bytes: u64 = waiting.iter().map(|old| old.1).sum();
                            if bytes <= budget && waiting.len() <= entries {
                                break;
                            }
                            let oldest = waiting[0].2;
                            expected.push(oldest);
                            list.iter_mut().find(|old| old.2 == oldest).unwrap().3 = true;
                        }
                        prop_assert_eq!(taken.iter().map(|held| held.note).collect::<Vec<_>>(), expected);
                        out.extend(taken);
                    }
                    3 => {
                        for held in out.drain(..) {
                            quarantine.released(&held);
                        }
                        list.retain(|old| !old.3);
                    }
                    _ => {
                        let taken = quarantine.take(|held| held.note % 2 == 0);
                        let expected: Vec<u32> =
                            list.iter().filter(|old| !old.3 && old.2 % 2 == 0).map(|old| old.2).collect();
                        prop_assert_eq!(taken.iter().map(|held| held.note).collect::<Vec<_>>(), expected);
                        for old in list.iter_mut().filter(|old| old.2 % 2 == 0) {
                            old.3 = true;
                        }
                        out.extend(taken);
                    }
                }
                let bytes: u64 = list.iter().filter(|old| !old.3).map(|old| old.1).sum();
                prop_assert_eq!(quarantine.bytes(), bytes);
                for (base, size, number, _) in &list {
                    for offset in [0, *size - 1, *size] {
                        let found = quarantine.find(DeviceAddress(base + offset)).map(|held| held.note);
                        prop_assert_eq!(found, Some(*number));
                    }
                }
                prop_assert_eq!(quarantine.iter().count(), list.len());
            }
        }
    }
}
