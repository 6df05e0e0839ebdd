//! What canaries add as a protection.

use super::Canaries;
use crate::memory::Holding;
use crate::protection::{ActsAt, BeforeFree, Leaves, Protection};
use crate::request::Submitted;
use crate::streams::{StreamName, Where};
use heap::{Entry, Held};
use host::Stack;
use model::Coverage;
use model::layout::Record;
use model::layout::canary::CANARY_RECORD;
use std::time::Instant;

impl Protection for Canaries {
    fn acts_at(&self) -> ActsAt {
        ActsAt {
            unchecked: true,
            ..ActsAt::default()
        }
    }

    fn before_unchecked(&self) -> bool {
        if self.later.any() {
            self.make_all();
        }
        self.is_verifying()
    }

    fn submitted(&self, launch: &Submitted<'_>) {
        self.launched(launch);
    }

    fn may_settle_later(&self) -> bool {
        // Else each launch is followed by a check.
        self.checks.budget() < 100
    }

    fn settled(&self, stream: StreamName, now: Instant) {
        Canaries::settled(self, stream, now);
    }

    fn graph_submitted(&self, place: Where) {
        self.graph_launched(place);
    }

    fn before_free(&self, entry: &Entry<Stack>, holding: Option<&Holding>) -> BeforeFree {
        let protect = self.env.settings().protect;
        let is_kept = || {
            let current = self.env.driver().current_context();
            holding.is_some_and(|holding| holding.release.context == current)
        };
        if !self.has_canaries(entry.owner.redzones, entry.allocation.serial) {
            BeforeFree::Nothing
        } else if is_kept() && protect.bounds && !protect.watch {
            // Each check after a launch verifies all canaries: a last check of
            // one buffer's would find nothing more.
            BeforeFree::Verified
        } else {
            BeforeFree::Idle
        }
    }

    fn freed(&self, entry: &Entry<Stack>, how: Leaves) {
        let (redzones, serial) = (entry.owner.redzones, entry.allocation.serial);
        match how {
            Leaves::Now => self.retire(redzones, serial),
            Leaves::Held => self.retire_held(redzones, serial),
            Leaves::InStream(stream) => self.retire_in_stream(redzones, serial, stream),
            Leaves::InCapture(stream) => self.retire_in_capture(redzones, serial, stream),
        }
    }

    fn not_freed(&self, entry: &Entry<Stack>) {
        let (extent, serial) = (entry.allocation.extent, entry.allocation.serial);
        self.restore(extent, entry.owner.redzones, serial);
    }

    fn releasing(&self, held: &[Held<Holding>]) {
        self.before_release(held.iter().filter_map(|held| held.note.slot));
    }

    fn acts_before_waits(&self) -> bool {
        self.is_verifying()
    }

    fn before_wait(&self, stream: Option<StreamName>) {
        self.scan_before_wait(stream);
    }

    fn waited(&self, stream: Option<StreamName>) {
        self.after_wait(stream);
    }

    fn stream_ending(&self, stream: StreamName) {
        self.checks_before_end(stream);
    }

    fn context_gone(&self, context: u64, theirs: &[Entry<Stack>]) {
        let slots = theirs.iter().filter_map(|entry| entry.owner.redzones.slot);
        self.forget_context(context, slots);
    }

    fn context_destroyed(&self) {
        self.doubt();
    }

    fn record(&self, record: &Record) -> bool {
        let is_ours = record.module == CANARY_RECORD;
        if is_ours {
            self.found(record);
        }
        is_ours
    }

    fn exit_begins(&self) {
        self.last_checks();
    }

    fn add_to(&self, coverage: &mut Coverage) {
        coverage.canaries = self.coverage();
    }
}
