//! Small buffers with redzones that are allocated in stream order: several lie in
//! one granule, which stays mapped as long as one does. The driver's pools give
//! memory out again in stream order, while shadow memory is written in the order of
//! the host; here a buffer's memory is used again only after its stream has come to
//! the free, and after that of others that were freed before.

use super::physical::{Backing, Placed, Room, no_addresses};
use super::{Pages, State};
use crate::protection::Placement;
use driver::DriverError;
use heap::placed::{Pieces, Slot};
use heap::shadow::{ALIGNMENT, RedzoneRule};
use model::layout::placed::MAPPING_GRANULE;
use model::{DeviceAddress, Extent};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Granules of one context that small buffers share.
struct Slabs {
    pieces: Pieces,
    /// First address that was taken, and what is mapped, by number of the piece.
    places: FxHashMap<u64, (DeviceAddress, Extent)>,
}

impl Default for Slabs {
    fn default() -> Slabs {
        Slabs {
            pieces: Pieces::new(MAPPING_GRANULE, ALIGNMENT),
            places: FxHashMap::default(),
        }
    }
}

/// What of granules small buffers use, and have used.
#[derive(Default)]
pub(super) struct Small {
    slabs: FxHashMap<u64, Slabs>,
    /// Freed, and not to be used again yet: contexts and slots, oldest first.
    freed: VecDeque<(u64, Slot)>,
    freed_bytes: u64,
}

impl Small {
    fn take(&mut self, context: u64, bytes: u64) -> Option<(Slot, Extent)> {
        let slabs = self.slabs.entry(context).or_default();
        let slot = slabs.pieces.take(bytes)?;
        let (_, range) = slabs.places.get(&slot.piece)?;
        Some((slot, *range))
    }

    fn add(&mut self, context: u64, taken: DeviceAddress, range: Extent) {
        let slabs = self.slabs.entry(context).or_default();
        let piece = slabs.pieces.add();
        slabs.places.insert(piece, (taken, range));
    }

    /// A slot may be used again; the granule that is not used any more with it.
    fn put(&mut self, context: u64, slot: Slot) -> Option<(DeviceAddress, Extent)> {
        let slabs = self.slabs.get_mut(&context)?;
        let piece = slabs.pieces.put(slot)?;
        slabs.places.remove(&piece)
    }

    /// Granules that are not used any more when so many bytes of freed slots at
    /// most are kept from use.
    fn keep(&mut self, bytes: u64) -> Vec<(DeviceAddress, Extent)> {
        let mut unused = Vec::new();
        while self.freed_bytes > bytes
            && let Some((context, slot)) = self.freed.pop_front()
        {
            self.freed_bytes -= slot.size;
            unused.extend(self.put(context, slot));
        }
        unused
    }
}

impl Pages {
    /// A small buffer between redzones that take memory.
    pub(super) fn place_in_slab(
        &self,
        size: u64,
        context: u64,
        rule: RedzoneRule,
    ) -> Result<Placement, DriverError> {
        // These take memory.
        let max = self.env.settings().redzone_max;
        let rule = RedzoneRule { max, ..rule };
        let redzoned = rule.place(size).filter(|all| all.total <= MAPPING_GRANULE);
        let redzoned = redzoned.ok_or_else(no_addresses)?;
        let known = self.state.lock().small.take(context, redzoned.total);
        let (slot, range) = match known {
            Some(found) => found,
            None => {
                let (taken, range) = self.map_own(Room::of(MAPPING_GRANULE, 0))?;
                let mut state = self.state.lock();
                state.add_memory(MAPPING_GRANULE);
                state.small.add(context, taken, range);
                // Of the new granule, or of another that has room meanwhile.
                let found = state.small.take(context, redzoned.total);
                found.ok_or_else(no_addresses)?
            }
        };
        let base = DeviceAddress(range.base.0 + slot.offset + redzoned.before);
        self.entered(
            Placed {
                base,
                range,
                taken: range.base,
                size,
                context,
                backing: Backing::Slab(slot),
            },
            0,
        );
        Ok(Placement {
            base,
            before: redzoned.before,
            after: redzoned.total - redzoned.before - size,
        })
    }

    /// No kernel uses a small buffer any more.
    pub(super) fn put_in_slab(&self, placed: &Placed, slot: Slot) {
        {
            let State { small, bytes, .. } = &mut *self.state.lock();
            *bytes -= placed.size;
            small.freed.push_back((placed.context, slot));
            small.freed_bytes += slot.size;
        }
        self.keep_slots(self.env.settings().quarantine_size);
    }

    /// Keeps at most so many bytes of freed slots from use. Returns whether memory
    /// went back to the device.
    pub(super) fn keep_slots(&self, bytes: u64) -> bool {
        let unused = self.state.lock().small.keep(bytes);
        for (taken, range) in &unused {
            if self.unmap(*taken, *range) {
                self.state.lock().memory -= range.size;
            }
        }
        !unused.is_empty()
    }
}
