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
        self.retire_in(around, serial, None, SupportStream::Own);
    }

    /// Whether there is anything to look at when the buffer goes.
    pub(crate) fn has_canaries(&self, around: heap::Around, serial: u64) -> bool {
        around
            .slot
            .is_some_and(|slot| !self.canaries.later.is_new(slot, serial))
    }

    /// As [`Runtime::retire`], of a buffer that is freed in a stream.
    pub(crate) fn retire_in_stream(&self, around: heap::Around, serial: u64, stream: StreamUse) {
        // What has no lasting handle is the calling thread's own stream.
        const PER_THREAD: u64 = 2;
        let handle = stream.name.lasting_handle().unwrap_or(PER_THREAD);
        let place = SupportStream::Program {
            handle,
            per_thread: false,
        };
        self.retire_in(around, serial, Some(stream.name), place);
    }

    fn retire_in(
        &self,
        around: heap::Around,
        serial: u64,
        name: Option<StreamName>,
        stream: SupportStream,
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
            Ok(_) => self.empty(slot, context),
            Err(error) => {
                self.check_failed(&error);
                self.empty(slot, context);
            }
        }
    }

    /// Empties a slot without the kernel, after all that may read it.
    fn empty(&self, slot: u32, context: u64) {
        let done = self.empty_slot(slot);
        // Checks under way have ended when the device has.
        let settled = self.driver.settle(context);
        let mut table = self.canaries.table.lock();
        match done.and(settled) {
            Ok(()) => table.left(slot),
            Err(_) => table.lost(slot),
        }
    }
}
