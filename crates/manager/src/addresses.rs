//! Which addresses partitions have. Each slot has room for one partition of the
//! greatest size with its margins, at a place where fences by a mask work.

use crate::quota;
use model::layout::fence::{GRANULE, HEADROOM, MARGIN, UNIT};
use parking_lot::Mutex;
use std::sync::Arc;

/// First address of the first slot: far from where systems place programs,
/// libraries and memory of drivers.
const FIRST: u64 = 0x2000_0000_0000;
/// End of the last slot.
const END: u64 = 0x6000_0000_0000;

/// What the first address of a slot is a multiple of: drivers follow a wanted
/// address only if it is a multiple of 32 MiB (H200, driver 580).
const HINTED: u64 = 32 << 20;

/// Bytes before a partition: its margin, and before that the word that ends its
/// kernels ([`model::layout::fence::stop`]), which it cannot reach. What lies
/// between that word's granule and the margin is not mapped.
pub(crate) const BEFORE: u64 = MARGIN + HINTED;

/// Bytes of sink memory that is mapped again and again. A larger piece takes
/// fewer mappings: 16 GiB take 8 ms by 64 MiB, 190 ms by 2 MiB (H200, driver
/// 580).
pub(crate) const SINK: u64 = HEADROOM;

const _: () = assert!(HINTED >= GRANULE && MARGIN.is_multiple_of(HINTED));
const _: () = assert!(FIRST.is_multiple_of(HINTED) && UNIT.is_multiple_of(HINTED));

/// The slots.
pub(crate) struct Addresses {
    /// Bytes of a partition.
    size: u64,
    /// Bytes from one slot to the next.
    stride: u64,
    taken: Mutex<Vec<bool>>,
}

/// A slot that is taken until this is dropped.
pub(crate) struct Slot {
    addresses: Arc<Addresses>,
    index: usize,
}

impl Addresses {
    /// Slots for partitions that hold `memory` bytes, a multiple of
    /// [`HEADROOM`]; where each piece that is mapped counts, as many as take at
    /// most `mappings` of them. `None` if there is no room for one.
    pub(crate) fn new(memory: u64, mappings: Option<u64>) -> Option<Addresses> {
        let whole = memory.checked_add(2 * HEADROOM)?;
        let size = whole.max(UNIT).checked_next_power_of_two()?;
        let before = BEFORE.checked_next_multiple_of(size)?;
        let stride = before.checked_add(size)?.checked_add(MARGIN)?;
        let stride = stride.checked_next_multiple_of(size)?;
        let count = ((END - FIRST) / stride).min(quota::TENANTS as u64);
        let pieces = (size + 2 * MARGIN) / SINK + HEADROOM / GRANULE;
        let count = mappings.map_or(count, |all| count.min(all / pieces)) as usize;
        (count > 0).then(|| Addresses {
            size,
            stride,
            taken: Mutex::new(vec![false; count]),
        })
    }

    /// Takes a slot; `None` if there is none left.
    pub(crate) fn take(self: &Arc<Addresses>) -> Option<Slot> {
        let mut taken = self.taken.lock();
        let index = taken.iter().position(|taken| !taken)?;
        taken[index] = true;
        Some(Slot {
            addresses: Arc::clone(self),
            index,
        })
    }

    /// How many slots are taken, and how many there are.
    pub(crate) fn count(&self) -> (usize, usize) {
        let taken = self.taken.lock();
        (taken.iter().filter(|taken| **taken).count(), taken.len())
    }
}

impl Slot {
    /// First byte of the partition.
    pub(crate) fn base(&self) -> u64 {
        let Addresses { size, stride, .. } = *self.addresses;
        FIRST + self.index as u64 * stride + BEFORE.next_multiple_of(size)
    }

    /// Bytes of the partition.
    pub(crate) fn size(&self) -> u64 {
        self.addresses.size
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.addresses.taken.lock()[self.index] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::layout::fence::FenceTable;

    #[test]
    fn partitions_with_their_margins_do_not_overlap() {
        for memory in [HEADROOM, 1 << 30, 4 << 30, 20 << 30, 100 << 30] {
            let addresses = Arc::new(Addresses::new(memory, None).expect("room"));
            let mut end = FIRST;
            let mut slots = Vec::new();
            while let Some(slot) = addresses.take() {
                let (base, size) = (slot.base(), slot.size());
                assert!(base - BEFORE >= end, "{memory:#x}");
                end = base + size + MARGIN;
                assert!((base - BEFORE).is_multiple_of(HINTED));
                assert!(size >= memory + 2 * HEADROOM && end <= END);
                FenceTable::new((base, size), base - BEFORE, 0, true)
                    .expect("a partition for masks");
                slots.push(slot);
            }
            assert!(slots.len() > 8, "{memory:#x}");
            let first = slots.remove(0).base();
            assert_eq!(addresses.take().map(|slot| slot.base()), Some(first));
        }
        assert!(Addresses::new(u64::MAX / 2, None).is_none());
    }

    #[test]
    fn there_are_no_more_partitions_than_mappings_for_them() {
        let count = |mappings| Some(Addresses::new(256 << 20, mappings)?.count().1);
        assert_eq!(count(None), Some(quota::TENANTS));
        // 70 GiB by 64 MiB, and one piece of 64 MiB by 2 MiB.
        assert_eq!(count(Some(10 * 1152)), Some(10));
        assert_eq!(count(Some(10 * 1152 - 1)), Some(9));
        assert_eq!(count(Some(1151)), None);
    }
}
