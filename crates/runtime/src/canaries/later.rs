//! Canaries that are made later: when something is about to run that could
//! write to them.
//!
//! Kernels whose accesses are all checked or proved, and copies that are
//! checked before they are made, write to no canary. So a new buffer has its
//! slot in the table at once, and its canaries and its record are written
//! before the first launch after which they are to be looked at: those of all
//! new buffers together, with one wait. A buffer that is freed before has cost
//! the device nothing, and there is nothing to look at when it goes.
//!
//! Memory that the host can write to itself (managed memory), and all under the
//! guard, which looks on while kernels run, is given its canaries at once; so is
//! what is allocated in stream order.

use super::Canaries;
use super::place::{Written, write_list};
use crate::moment::moment_over;
use crate::turn::Turn;
use driver::DriverError;
use heap::Redzones;
use model::layout::canary::CanaryRecord;
use model::{AllocationKind, BareReason, DeviceAddress, Extent};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A buffer whose canaries are still to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct New {
    pub extent: Extent,
    pub redzones: Redzones,
    pub context: u64,
    pub serial: u64,
}

/// The new buffers, by slot.
#[derive(Default)]
pub(super) struct Later {
    new: Mutex<FxHashMap<u32, New>>,
    any: AtomicBool,
    /// Taken while they are made, so that no thread goes on, or frees a buffer,
    /// before what is under way is done.
    making: Turn,
}

impl Later {
    pub fn add(&self, slot: u32, new: New) {
        let mut list = self.new.lock();
        list.insert(slot, new);
        self.any.store(true, Ordering::Release);
        moment_over();
    }

    /// Whether any buffer's canaries are still to be made.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether the buffer's canaries are still to be made.
    pub fn is_new(&self, slot: u32, serial: u64) -> bool {
        let list = self.new.lock();
        list.get(&slot).is_some_and(|new| new.serial == serial)
    }

    /// The slots of a context's buffers; its memory is gone.
    pub fn context_gone(&self, context: u64) -> Vec<u32> {
        let _making = self.making.take();
        let mut list = self.new.lock();
        let theirs = list.iter().filter(|(_, new)| new.context == context);
        let slots: Vec<u32> = theirs.map(|(slot, _)| *slot).collect();
        for slot in &slots {
            list.remove(slot);
        }
        slots
    }

    /// The canaries of a slot are needed no more: that they are not made from
    /// here on. Returns whether they had not been made.
    pub fn forget(&self, slot: u32, serial: u64) -> bool {
        if !self.any() {
            return false;
        }
        // None: this thread is making them, and frees nothing.
        let _making = self.making.take();
        let mut list = self.new.lock();
        let is_it = list.get(&slot).is_some_and(|new| new.serial == serial);
        is_it && list.remove(&slot).is_some()
    }
}

impl Canaries {
    /// Whether canaries of new memory of a kind are made later.
    pub(super) fn makes_later(&self, kind: AllocationKind) -> bool {
        !self.env.settings().protect.watch && kind == AllocationKind::Device
    }

    /// From here on every buffer has its canaries.
    pub(super) fn make_all(&self) {
        let later = &self.later;
        // A nested call finds the outer one doing the work.
        let Some(_making) = later.making.take() else {
            return;
        };
        let new: Vec<(u32, New)> = {
            let mut list = later.new.lock();
            list.drain().collect()
        };
        let mut by_context: FxHashMap<u64, Vec<(u32, New)>> = FxHashMap::default();
        for (slot, new) in new {
            // Frees are seen; what another allocation lies over is not there.
            let is_live = self.memory.read(|registry| {
                let entry = registry.at(new.extent.base);
                entry.is_some_and(|entry| entry.allocation.serial == new.serial)
            });
            match is_live {
                true => by_context.entry(new.context).or_default().push((slot, new)),
                false => self.table.lock().emptied(slot),
            }
        }
        for (context, new) in by_context {
            if let Err(error) = self.make_canaries(context, &new) {
                self.env
                    .error(&format!("buffers are without canaries: {error}"), false);
                for _ in &new {
                    self.bare(BareReason::Unprotected);
                }
            }
        }
        let list = later.new.lock();
        // Under the lock: what comes now sets it again.
        if list.is_empty() {
            later.any.store(false, Ordering::Release);
        }
    }

    fn make_canaries(&self, context: u64, new: &[(u32, New)]) -> Result<(), DriverError> {
        let records: Vec<(u32, CanaryRecord)> = new
            .iter()
            .map(|(slot, new)| {
                let record = self.record(new.extent, new.redzones, context, new.serial);
                (*slot, record)
            })
            .collect();
        let written: Vec<Written> = records
            .iter()
            .map(|(slot, record)| Written::of(&self.keys, *slot, record))
            .collect();
        let writes: Vec<(DeviceAddress, &[u8])> = written.iter().flat_map(write_list).collect();
        if self.env.driver().current_context() == context {
            return self.env.driver().write_all(&writes);
        }
        let mut write = || self.env.driver().write_all(&writes);
        self.env.driver().with_context(context, &mut write)
    }
}
