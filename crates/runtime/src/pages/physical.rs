//! Memory for a buffer, at addresses of its own.

use super::{Pages, State};
use crate::protection::Placement;
use driver::DriverError;
use driver::sys::CUresult;
use heap::placed::{Frame, Pieces, Side, Slot};
use model::layout::placed::MAPPING_GRANULE;
use model::{DeviceAddress, Extent};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;

/// What slots of shared memory are multiples of: the alignment that CUDA promises
/// for the start of a buffer.
const SLOT: u64 = 512;
/// Least bytes of a slot after its buffer.
const SLOT_TAIL: u64 = 256;
/// Buffers above this have granules of their own: it costs no more than the
/// driver's own allocation, which for these is of whole granules, too (measured
/// on driver 580).
const ALWAYS_OWN: u64 = MAPPING_GRANULE / 2;
/// Most bytes of unmapped addresses after a buffer.
const LARGEST_GAP: u64 = 1 << 30;

/// A buffer that was placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// What is mapped.
    pub range: Extent,
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
    /// Shared with other buffers.
    Shared(Slot),
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
fn no_addresses() -> DriverError {
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

    /// Memory of its own, at whose end, or start, the buffer lies.
    fn place_alone(&self, size: u64, context: u64, spent: u64) -> Result<Placement, DriverError> {
        let driver = self.env.driver();
        let frame = Frame::of(size, MAPPING_GRANULE, self.align, self.side);
        let frame = frame.ok_or_else(no_addresses)?;
        let memory = driver.create_memory(frame.range)?;
        let mapped = self.map_new(frame.range, size / 2, memory);
        // What is mapped stays.
        let released = driver.release_memory(memory);
        let range = mapped?;
        if let Err(error) = released {
            self.unmap(range);
            return Err(error);
        }
        let base = DeviceAddress(range.base.0 + frame.before);
        let placed = Placed {
            range,
            size,
            context,
            backing: Backing::Own { spent },
        };
        self.entered(base, placed, frame.range);
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
        let range = match self.map_new(MAPPING_GRANULE, 0, memory) {
            Ok(range) => range,
            Err(error) => {
                self.put(context, slot);
                return Err(error);
            }
        };
        let base = DeviceAddress(range.base.0 + slot.offset + SLOT);
        let placed = Placed {
            range,
            size,
            context,
            backing: Backing::Shared(slot),
        };
        self.entered(base, placed, 0);
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

    /// Maps memory at addresses that nothing else has.
    fn map_new(&self, bytes: u64, gap: u64, memory: u64) -> Result<Extent, DriverError> {
        let range = self.state.lock().ranges.take(bytes, gap.min(LARGEST_GAP));
        let range = range.ok_or_else(no_addresses)?;
        let mapped = self.env.driver().map_memory(range, memory);
        if let Err(error) = mapped {
            self.state.lock().ranges.untake(range.base);
            return Err(error);
        }
        Ok(range)
    }

    /// A buffer is there, for which this much memory was taken.
    fn entered(&self, base: DeviceAddress, placed: Placed, memory: u64) {
        let mut state = self.state.lock();
        match placed.backing {
            Backing::Own { .. } => state.counts.exact += 1,
            Backing::Shared(_) => state.counts.shared += 1,
        }
        state.bytes += placed.size;
        state.counts.bytes = state.counts.bytes.max(state.bytes);
        state.add_memory(memory);
        state.live.insert(base.0, placed);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Takes a buffer's memory away. No kernel may use it that should not fail.
    pub(super) fn remove(&self, placed: &Placed) {
        if !self.unmap(placed.range) {
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
        }
    }

    /// Unmaps a range. Returns whether that was done; else its addresses are never
    /// given out again.
    fn unmap(&self, range: Extent) -> bool {
        match self.env.driver().unmap_memory(range) {
            Ok(()) => self.state.lock().ranges.put(range.base),
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
    fn add_memory(&mut self, bytes: u64) {
        self.memory += bytes;
        self.counts.memory = self.counts.memory.max(self.memory);
    }
}
