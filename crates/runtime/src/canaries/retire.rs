//! The last look at a buffer's canaries, before it goes.
//!
//! A buffer that stays in the quarantine keeps its memory, so nothing has to
//! wait for its record to leave the device's table: the records of several go
//! with one launch ([`Retiring`]), and only what gives the memory back waits for
//! that.

use super::Canaries;
use super::checks::Scan;
use super::pending::Slots;
use crate::streams::{StreamName, StreamUse};
use driver::SupportStream;
use model::layout::canary::{NAMED_SLOTS, SLOTS_NAMED};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Slots of buffers that the program has freed.
type Freed = SmallVec<[u32; NAMED_SLOTS]>;

/// Freed buffers in the quarantine whose records leave the table together.
#[derive(Default)]
pub(super) struct Retiring {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Slots whose records are still in the table, by the context that was
    /// current at the free.
    freed: FxHashMap<u64, Freed>,
    /// The check that takes a slot's record out, and the context that it was
    /// launched in; until the memory is given back.
    launched: FxHashMap<u32, (u64, u64)>,
}

impl Retiring {
    /// Adds a slot. What it returns is to be taken out of the table now.
    fn add(&self, context: u64, slot: u32) -> Option<Freed> {
        let mut state = self.state.lock();
        let freed = state.freed.entry(context).or_default();
        freed.push(slot);
        (freed.len() == NAMED_SLOTS).then(|| std::mem::take(freed))
    }

    /// The list that a slot is in, with its context, if it is in one. The list
    /// is to be taken out of the table now.
    fn list_of(&self, slot: u32) -> Option<(u64, Freed)> {
        let mut state = self.state.lock();
        let holds = |(_, freed): &(&u64, &mut Freed)| freed.contains(&slot);
        let (context, freed) = state.freed.iter_mut().find(holds)?;
        Some((*context, std::mem::take(freed)))
    }

    fn launched(&self, slots: &[u32], check: u64, context: u64) {
        let mut state = self.state.lock();
        let launched = slots.iter().map(|slot| (*slot, (check, context)));
        state.launched.extend(launched);
    }

    /// The check that takes a slot out of the table, and its context. The entry
    /// is removed, because the caller waits for the check.
    fn check_of(&self, slot: u32) -> Option<(u64, u64)> {
        self.state.lock().launched.remove(&slot)
    }

    /// A context is gone: the slots whose records nothing takes out any more.
    pub fn context_gone(&self, context: u64) -> Freed {
        let mut state = self.state.lock();
        state.launched.retain(|_, (_, of)| *of != context);
        state.freed.remove(&context).unwrap_or_default()
    }
}

impl Canaries {
    /// The program frees a buffer, for which the host has waited for all
    /// kernels: the last look at its canaries.
    pub(super) fn retire(&self, redzones: heap::Redzones, serial: u64) {
        self.retire_in(redzones, serial, None, SupportStream::Own, true);
    }

    /// As [`Canaries::retire`] or, with a stream, [`Canaries::retire_in_stream`],
    /// while a stream of the program is captured: then nothing waits for the
    /// whole device, which would end that.
    pub(super) fn retire_in_capture(
        &self,
        redzones: heap::Redzones,
        serial: u64,
        stream: Option<StreamUse>,
    ) {
        let place = stream.map_or(SupportStream::Own, StreamUse::support);
        let name = stream.map(|stream| stream.name);
        self.retire_in(redzones, serial, name, place, false);
    }

    /// Whether there is anything to look at when the buffer goes.
    pub(super) fn has_canaries(&self, redzones: heap::Redzones, serial: u64) -> bool {
        redzones
            .slot
            .is_some_and(|slot| !self.later.is_new(slot, serial))
    }

    /// As [`Canaries::retire`], of a buffer that is freed in a stream.
    pub(super) fn retire_in_stream(
        &self,
        redzones: heap::Redzones,
        serial: u64,
        stream: StreamUse,
    ) {
        let place = stream.support();
        self.retire_in(redzones, serial, Some(stream.name), place, true);
    }

    fn retire_in(
        &self,
        redzones: heap::Redzones,
        serial: u64,
        name: Option<StreamName>,
        stream: SupportStream,
        may_wait: bool,
    ) {
        let Some(slot) = self.slot_with_record(redzones, serial) else {
            return;
        };
        let context = self.env.driver().current_context();
        let named = SmallVec::from_slice(&[slot]);
        match self.last_check(context, name, stream, named) {
            Some(_) if stream == SupportStream::Own => {
                self.wait_for_checks();
                self.table.lock().emptied(slot);
            }
            Some(check) => {
                self.table.lock().retire(slot, check);
                self.records.expect();
            }
            // Nothing reads its memory any more: the host empties the slot.
            None => self.empty(slot, context, may_wait),
        }
    }

    /// As [`Canaries::retire`], of a buffer that stays in the quarantine: its
    /// canaries were verified after all that the host has waited for.
    pub(super) fn retire_held(&self, redzones: heap::Redzones, serial: u64) {
        let Some(slot) = self.slot_with_record(redzones, serial) else {
            return;
        };
        let context = self.env.driver().current_context();
        if let Some(freed) = self.retiring.add(context, slot) {
            self.retire_together(context, freed);
        }
    }

    /// The slot of a buffer that goes, if its record is in the device's table. A
    /// slot whose canaries were not made yet is free again.
    fn slot_with_record(&self, redzones: heap::Redzones, serial: u64) -> Option<u32> {
        let slot = redzones.slot?;
        let is_new = self.later.forget(slot, serial);
        let mut table = self.table.lock();
        if !table.is_of(slot, serial) {
            return None;
        }
        // Nothing has run that could have written there.
        if is_new {
            table.emptied(slot);
            return None;
        }
        Some(slot)
    }

    /// Launches the check that takes these slots' records out of the table.
    /// `None` if it cannot be launched.
    fn last_check(
        &self,
        context: u64,
        name: Option<StreamName>,
        stream: SupportStream,
        named: Freed,
    ) -> Option<u64> {
        let slots = Slots { all: false, named };
        let count = slots.named.len() as u32;
        let scan = Scan {
            context,
            name,
            stream,
            range: (SLOTS_NAMED, count),
            slots: &slots,
            retire: true,
        };
        match self.launch_scan(&scan) {
            Ok(check) => (check != 0).then_some(check),
            Err(error) => {
                self.check_failed(&error);
                None
            }
        }
    }

    /// Takes the records of freed buffers out of the table, in order with other
    /// checks of the current context.
    fn retire_together(&self, context: u64, freed: Freed) {
        let Some(check) = self.last_check(context, None, SupportStream::Own, freed.clone()) else {
            for slot in freed {
                self.empty(slot, context, true);
            }
            return;
        };
        self.retiring.launched(&freed, check, context);
        let mut table = self.table.lock();
        for slot in freed {
            table.retire(slot, check);
        }
        drop(table);
        self.records.expect();
    }

    /// The memory of buffers that were passed to [`Canaries::retire_held`] is about
    /// to be given back: no check reads it after this call.
    pub(super) fn before_release(&self, slots: impl Iterator<Item = u32>) {
        let retiring = &self.retiring;
        for slot in slots {
            if let Some((context, freed)) = retiring.list_of(slot) {
                self.in_context(context, || self.retire_together(context, freed.clone()));
            }
            let Some((check, context)) = retiring.check_of(slot) else {
                continue;
            };
            if !self.checks.has_ended(self, check) {
                self.in_context(context, || self.wait_for_checks());
            }
        }
    }

    /// Runs `work` in a context. If that is gone, nothing of it is left to read.
    fn in_context(&self, context: u64, work: impl Fn()) {
        if self.env.driver().current_context() == context {
            return work();
        }
        let mut work = || {
            work();
            Ok(())
        };
        // That the context is gone is no error here.
        let _ = self.env.driver().with_context(context, &mut work);
    }

    /// Empties a slot without the kernel, after all that may read it.
    fn empty(&self, slot: u32, context: u64, may_wait: bool) {
        let done = self.empty_slot(slot);
        // Checks under way have ended when the device has.
        let settled = may_wait.then(|| self.env.driver().settle(context));
        let mut table = self.table.lock();
        match settled.map(|settled| done.and(settled)) {
            Some(Ok(())) => table.emptied(slot),
            Some(Err(_)) | None => table.lost(slot),
        }
    }
}
