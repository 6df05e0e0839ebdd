//! Memory for a buffer, at addresses of its own.

use super::{ALWAYS_OWN, Kind, LARGEST_GAP, Pages, State};
use crate::moment::moment_over;
use crate::protection::Placement;
use driver::DriverError;
use driver::sys::CUresult;
use heap::placed::{Frame, Pieces, Side, Slot};
use heap::shadow::RedzoneRule;
use model::layout::placed::MAPPING_GRANULE;
use model::{DeviceAddress, Extent};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;

/// What slots of shared memory are multiples of: the alignment that CUDA promises
/// for the start of a buffer.
const SLOT: u64 = 512;
/// Least bytes of a slot after its buffer.
const SLOT_TAIL: u64 = 256;
/// Half of the addresses that lie between two ranges at least: each of the two
/// buffers has one half as redzone.
const HALF: u64 = MAPPING_GRANULE / 2;

/// A buffer that was placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// The program's first byte.
    pub base: DeviceAddress,
    /// What is mapped.
    pub range: Extent,
    /// First byte of the addresses that were taken for it.
    pub taken: DeviceAddress,
    /// Bytes of the buffer.
    pub size: u64,
    pub context: u64,
    pub backing: Backing,
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// The buffer's alone; so much of the budget was spent for that.
    Own { spent: u64 },
    /// Shared with other buffers, at an address of its own.
    Shared(Slot),
    /// Shared with other buffers, beside them.
    Slab(Slot),
}

/// Addresses for a buffer, in granules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes before what is mapped.
    front: u64,
    /// Bytes that are mapped.
    mapped: u64,
    /// Bytes after that, which nothing else gets.
    gap: u64,
}

impl Room {
    pub fn of(mapped: u64, gap: u64) -> Room {
        Room {
            front: 0,
            mapped,
            gap: gap.min(LARGEST_GAP),
        }
    }
}

/// Memory of one context that buffers share.
pub(super) struct Shared {
    pub pieces: Pieces,
    /// The driver's handles, by number of the piece.
    pub handles: FxHashMap<u64, u64>,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            pieces: Pieces::new(MAPPING_GRANULE, SLOT),
            handles: FxHashMap::default(),
        }
    }
}

/// Addresses are used up, or the size is none.
pub(super) fn no_addresses() -> DriverError {
    DriverError {
        call: "cuMemAddressReserve",
        code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        message: "no addresses are left for placed buffers".into(),
    }
}

impl Pages {
    /// Places a buffer of the current context, which must not be empty.
    pub(super) fn place_in(&self, size: u64, context: u64) -> Result<Placement, DriverError> {
        let settings = self.env.settings();
        let is_large = size > ALWAYS_OWN;
        match self.kind {
            Kind::Unmapped => {}
            Kind::Redzones(rule) if is_large => return self.place_between(size, context, rule),
            Kind::Redzones(rule) => return self.place_in_slab(size, context, rule),
            Kind::Kept { before, after } => {
                return self.place_with_canaries(size, context, (before, after));
            }
        }
        let spends = MAPPING_GRANULE.saturating_sub(size);
        let is_chosen = || {
            let sizes = settings.pages_from..=settings.pages_to;
            let mut state = self.state.lock();
            let sample = state.sample.as_mut();
            sizes.contains(&size) && sample.is_some_and(|sample| sample.takes(spends))
        };
        if is_large {
            return self.place_alone(size, context, 0);
        }
        if is_chosen() {
            match self.place_alone(size, context, spends) {
                Err(error) if error.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                    self.refund(spends);
                }
                Err(error) => {
                    self.refund(spends);
                    return Err(error);
                }
                placed => return placed,
            }
        }
        self.place_with_others(size, context)
    }

    fn refund(&self, spent: u64) {
        if let Some(sample) = &mut self.state.lock().sample {
            sample.refund(spent);
        }
    }

    /// Memory of its own, with so many bytes of addresses before and after it. `at`:
    /// where in it the buffer of so many bytes starts.
    fn place_own(
        &self,
        room: Room,
        (at, size): (u64, u64),
        context: u64,
        spent: u64,
    ) -> Result<DeviceAddress, DriverError> {
        let mapped = self.map_own(room)?;
        let backing = Backing::Own { spent };
        Ok(self.enter(mapped, (at, size), context, backing, room.mapped))
    }

    /// Enters a buffer of so many bytes, which starts at a place in what was
    /// mapped, of which so many bytes are new memory. Returns its address.
    fn enter(
        &self,
        (taken, range): (DeviceAddress, Extent),
        (at, size): (u64, u64),
        context: u64,
        backing: Backing,
        memory: u64,
    ) -> DeviceAddress {
        let base = DeviceAddress(range.base.0 + at);
        let placed = Placed {
            base,
            range,
            taken,
            size,
            context,
            backing,
        };
        self.entered(placed, memory);
        base
    }

    /// Memory of its own, as [`Pages::map_new`].
    pub(super) fn map_own(&self, room: Room) -> Result<(DeviceAddress, Extent), DriverError> {
        let driver = self.env.driver();
        let memory = driver.create_memory(room.mapped)?;
        let mapped = self.map_new(room, memory);
        // What is mapped stays.
        let released = driver.release_memory(memory);
        let (taken, range) = mapped?;
        if let Err(error) = released {
            self.unmap(taken, range);
            return Err(error);
        }
        Ok((taken, range))
    }

    /// A buffer whose redzones are addresses that have no memory, but for what is
    /// left of the last granule.
    fn place_between(
        &self,
        size: u64,
        context: u64,
        rule: RedzoneRule,
    ) -> Result<Placement, DriverError> {
        let redzone = rule.bytes(size);
        let granules = |bytes: u64| bytes.checked_next_multiple_of(MAPPING_GRANULE);
        let mapped = granules(size).ok_or_else(no_addresses)?;
        let front = redzone.saturating_sub(HALF);
        let room = Room {
            front: granules(front).ok_or_else(no_addresses)?,
            mapped,
            gap: granules(redzone + HALF).ok_or_else(no_addresses)?,
        };
        let base = self.place_own(room, (0, size), context, 0)?;
        Ok(Placement {
            base,
            before: room.front + HALF,
            after: mapped - size + room.gap - HALF,
        })
    }

    /// A buffer with room for canaries of these sizes.
    fn place_with_canaries(
        &self,
        size: u64,
        context: u64,
        (before, after): (u64, u64),
    ) -> Result<Placement, DriverError> {
        let end = before.checked_add(size);
        let end = end.and_then(|end| {
            end.checked_add(after)?
                .checked_next_multiple_of(MAPPING_GRANULE)
        });
        let room = Room::of(end.ok_or_else(no_addresses)?, 0);
        let base = self.place_own(room, (before, size), context, 0)?;
        let after = match after {
            0 => 0,
            after => (size + after).next_multiple_of(16) - size,
        };
        Ok(Placement {
            base,
            before,
            after: after.min(room.mapped - before - size),
        })
    }

    /// Memory of its own, at whose end, or start, the buffer lies.
    fn place_alone(&self, size: u64, context: u64, spent: u64) -> Result<Placement, DriverError> {
        let frame = Frame::of(size, MAPPING_GRANULE, self.align, self.side);
        let frame = frame.ok_or_else(no_addresses)?;
        // An overrun by the buffer's own length ends well before the next buffer.
        let room = Room::of(frame.range, size.saturating_mul(2));
        let base = self.place_own(room, (frame.before, size), context, spent)?;
        Ok(Placement {
            base,
            before: self.canary_before(base, frame.before),
            after: match self.side {
                Side::End if self.align >= 16 => frame.after,
                Side::End => 0,
                Side::Start => {
                    let canary = (size + self.canary).next_multiple_of(16) - size;
                    canary.min(frame.after)
                }
            },
        })
    }

    /// Memory that others have, too, at an address of its own.
    fn place_with_others(&self, size: u64, context: u64) -> Result<Placement, DriverError> {
        let driver = self.env.driver();
        let tail = (size + SLOT_TAIL).next_multiple_of(SLOT) - size;
        let bytes = SLOT + size + tail;
        let take = || {
            let mut state = self.state.lock();
            let shared = state.shared.entry(context).or_default();
            let slot = shared.pieces.take(bytes)?;
            Some((slot, *shared.handles.get(&slot.piece)?))
        };
        let (slot, memory) = match take() {
            Some(taken) => taken,
            None => {
                let memory = driver.create_memory(MAPPING_GRANULE)?;
                let mut state = self.state.lock();
                state.add_memory(MAPPING_GRANULE);
                let shared = state.shared.entry(context).or_default();
                let piece = shared.pieces.add();
                shared.handles.insert(piece, memory);
                // Of the new piece, or of another that has room meanwhile.
                let slot = shared.pieces.take(bytes).ok_or_else(no_addresses)?;
                let memory = *shared.handles.get(&slot.piece).unwrap_or(&memory);
                (slot, memory)
            }
        };
        let mapped = match self.map_new(Room::of(MAPPING_GRANULE, 0), memory) {
            Ok(mapped) => mapped,
            Err(error) => {
                self.put(context, slot);
                return Err(error);
            }
        };
        let at = slot.offset + SLOT;
        let base = self.enter(mapped, (at, size), context, Backing::Shared(slot), 0);
        Ok(Placement {
            base,
            before: self.canary_before(base, SLOT),
            after: tail,
        })
    }

    /// Bytes of canary before a buffer, where this many are its own.
    fn canary_before(&self, base: DeviceAddress, room: u64) -> u64 {
        let is_wanted = self.env.settings().canary_head && base.0.is_multiple_of(16);
        match is_wanted {
            true => self.canary.min(room) & !15,
            false => 0,
        }
    }

    /// Maps memory at addresses that nothing else has. Returns the first address
    /// that was taken, and what is mapped.
    fn map_new(&self, room: Room, memory: u64) -> Result<(DeviceAddress, Extent), DriverError> {
        let bytes = room.front.checked_add(room.mapped);
        let take = |bytes| self.state.lock().ranges.take(bytes, room.gap);
        let taken = bytes.and_then(take).ok_or_else(no_addresses)?;
        let range = Extent {
            base: DeviceAddress(taken.base.0 + room.front),
            size: room.mapped,
        };
        let mapped = self.env.driver().map_memory(range, memory);
        if let Err(error) = mapped {
            self.state.lock().ranges.untake(taken.base);
            return Err(error);
        }
        Ok((taken.base, range))
    }

    /// A buffer is there, for which this much memory was taken.
    pub(super) fn entered(&self, placed: Placed, memory: u64) {
        let mut state = self.state.lock();
        match placed.backing {
            Backing::Own { .. } => state.counts.exact += 1,
            Backing::Shared(_) | Backing::Slab(_) => state.counts.shared += 1,
        }
        state.bytes += placed.size;
        state.counts.bytes = state.counts.bytes.max(state.bytes);
        state.add_memory(memory);
        state.live.insert(placed.base.0, placed);
        if !self.any.swap(true, Ordering::Relaxed) {
            moment_over();
        }
    }

    /// Takes a buffer's memory away. No kernel may use it that should not fail.
    pub(super) fn remove(&self, placed: &Placed) {
        self.shadow.taken_away(placed.base);
        if let Backing::Slab(slot) = placed.backing {
            return self.put_in_slab(placed, slot);
        }
        if !self.unmap(placed.taken, placed.range) {
            return;
        }
        let mut state = self.state.lock();
        state.bytes -= placed.size;
        match placed.backing {
            Backing::Own { spent } => {
                state.memory -= placed.range.size;
                if let Some(sample) = &mut state.sample {
                    sample.refund(spent);
                }
            }
            Backing::Shared(slot) => {
                drop(state);
                self.put(placed.context, slot);
            }
            Backing::Slab(_) => {}
        }
    }

    /// Unmaps a range. Returns whether that was done; else its addresses are never
    /// given out again.
    pub(super) fn unmap(&self, taken: DeviceAddress, range: Extent) -> bool {
        match self.env.driver().unmap_memory(range) {
            Ok(()) => self.state.lock().ranges.put(taken),
            // In a context that has failed, nothing is freed any more.
            Err(error) if error.is_sticky() => false,
            Err(error) => {
                let message = format!("memory of a freed buffer stays mapped: {error}");
                self.env.error(&message, false);
                false
            }
        }
    }

    /// Nothing uses this part of shared memory any more.
    fn put(&self, context: u64, slot: Slot) {
        let released = {
            let mut state = self.state.lock();
            let shared = state.shared.get_mut(&context);
            let released = shared.and_then(|shared| {
                let piece = shared.pieces.put(slot)?;
                shared.handles.remove(&piece)
            });
            if released.is_some() {
                state.memory -= MAPPING_GRANULE;
            }
            released
        };
        if let Some(memory) = released {
            // What cannot be released goes with the process.
            let _ = self.env.driver().release_memory(memory);
        }
    }
}

impl State {
    pub(super) fn add_memory(&mut self, bytes: u64) {
        self.memory += bytes;
        self.counts.memory = self.counts.memory.max(self.memory);
    }
}
