//! The last look at a buffer's canaries, before it goes.

use super::checks::Slots;
use crate::runtime::Runtime;
use crate::streams::{StreamName, StreamUse};
use driver::SupportStream;
use model::layout::canary::SLOTS_NAMED;
use smallvec::SmallVec;

impl Runtime {
    /// The program frees a buffer, for which the host has waited for all
    /// kernels: the last look at its canaries.
    pub(crate) fn retire(&self, around: heap::Around, serial: u64) {
        self.retire_in(around, serial, None, SupportStream::Own, true);
    }

    /// As [`Runtime::retire`] or, with a stream, [`Runtime::retire_in_stream`],
    /// while a stream of the program is captured: then nothing waits for the
    /// whole device, which would end that.
    pub(crate) fn retire_in_capture(
        &self,
        around: heap::Around,
        serial: u64,
        stream: Option<StreamUse>,
    ) {
        let place = stream.map_or(SupportStream::Own, of_program);
        let name = stream.map(|stream| stream.name);
        self.retire_in(around, serial, name, place, false);
    }

    /// Whether there is anything to look at when the buffer goes.
    pub(crate) fn has_canaries(&self, around: heap::Around, serial: u64) -> bool {
        around
            .slot
            .is_some_and(|slot| !self.canaries.later.is_new(slot, serial))
    }

    /// As [`Runtime::retire`], of a buffer that is freed in a stream.
    pub(crate) fn retire_in_stream(&self, around: heap::Around, serial: u64, stream: StreamUse) {
        let place = of_program(stream);
        self.retire_in(around, serial, Some(stream.name), place, true);
    }

    fn retire_in(
        &self,
        around: heap::Around,
        serial: u64,
        name: Option<StreamName>,
        stream: SupportStream,
        may_wait: bool,
    ) {
        let Some(slot) = around.slot else { return };
        let is_new = self.canaries.later.forget(slot, serial);
        if !self.canaries.table.lock().is_of(slot, serial) {
            return;
        }
        // Nothing has run that could have written there.
        if is_new {
            return self.canaries.table.lock().left(slot);
        }
        let context = self.driver.current_context();
        let slots = Slots {
            all: false,
            named: SmallVec::from_slice(&[slot]),
        };
        let launched = self.launch_check(context, name, stream, (SLOTS_NAMED, 1), &slots, true);
        match launched {
            Ok(number) if number != 0 => {
                if stream == SupportStream::Own {
                    self.wait_for_checks();
                    self.canaries.table.lock().left(slot);
                } else {
                    self.canaries.table.lock().leaves(slot, number);
                    self.watch_records();
                }
            }
            // Nothing reads its memory any more: the host empties the slot.
            Ok(_) => self.empty(slot, context, may_wait),
            Err(error) => {
                self.check_failed(&error);
                self.empty(slot, context, may_wait);
            }
        }
    }

    /// Empties a slot without the kernel, after all that may read it.
    fn empty(&self, slot: u32, context: u64, may_wait: bool) {
        let done = self.empty_slot(slot);
        // Checks under way have ended when the device has.
        let settled = may_wait.then(|| self.driver.settle(context));
        let mut table = self.canaries.table.lock();
        match settled.map(|settled| done.and(settled)) {
            Some(Ok(())) => table.left(slot),
            Some(Err(_)) | None => table.lost(slot),
        }
    }
}

/// A stream as the driver is given it.
fn of_program(stream: StreamUse) -> SupportStream {
    // What has no lasting handle is the calling thread's own stream.
    const PER_THREAD: u64 = 2;
    SupportStream::Program {
        handle: stream.name.lasting_handle().unwrap_or(PER_THREAD),
        per_thread: false,
    }
}
