//! What buffers at addresses of their own add as a protection.

use super::physical::Placed;
use super::{ALWAYS_OWN, Kind, Pages};
use crate::memory::Holding;
use crate::prepare::Wanted;
use crate::protection::{ActsAt, BeforeFree, Leaves, Placement, PlacementRequest, Protection};
use crate::streams::StreamName;
use driver::sys::CUresult;
use heap::Entry;
use host::Stack;
use model::{Coverage, ElsewhereReason};

impl Protection for Pages {
    fn wants(&self) -> Wanted {
        Wanted::Look
    }

    fn acts_at(&self) -> ActsAt {
        ActsAt {
            unchecked: self.kind == Kind::Unmapped,
            placements: true,
            ..ActsAt::default()
        }
    }

    fn place(&self, request: &PlacementRequest) -> Option<Placement> {
        let is_small = request.size <= ALWAYS_OWN;
        let may_be_small = match self.kind {
            Kind::Unmapped => true,
            Kind::Redzones(_) => request.in_stream_order,
            Kind::Kept { .. } => false,
        };
        if is_small && !may_be_small {
            return None;
        }
        if let Some(reason) = request.obstacle {
            self.elsewhere(reason);
            return None;
        }
        let context = self.env.driver().current_context();
        // The device refuses both, and the program must get that error.
        if request.size == 0 || context == 0 {
            return None;
        }
        if !self.open() {
            self.elsewhere(ElsewhereReason::Refused);
            return None;
        }
        self.collect(false);
        let mut placed = self.place_in(request.size, context);
        let is_full =
            |error: &driver::DriverError| error.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        if placed.as_ref().is_err_and(is_full) && self.make_room() {
            placed = self.place_in(request.size, context);
        }
        placed.map_err(|error| self.refused(&error)).ok()
    }

    fn elsewhere(&self, reason: ElsewhereReason) {
        Pages::elsewhere(self, reason);
    }

    fn has_placed(&self, entry: &Entry<Stack>) -> bool {
        let base = entry.allocation.extent.base.0;
        self.any() && self.state.lock().live.contains_key(&base)
    }

    fn give_back(&self, entry: &Entry<Stack>, how: Leaves) -> bool {
        let base = entry.allocation.extent.base.0;
        let Some(placed) = self.state.lock().live.remove(&base) else {
            return false;
        };
        match how {
            Leaves::Now | Leaves::Held => self.remove(&placed),
            Leaves::InStream(stream) => self.leave_in_stream(placed, stream),
            Leaves::InCapture(_) => self.leave(placed),
        }
        self.collect(false);
        true
    }

    fn make_room(&self) -> bool {
        self.collect_all() | self.keep_slots(0)
    }

    fn before_unchecked(&self) -> bool {
        self.kind == Kind::Unmapped && self.any()
    }

    fn before_free(&self, entry: &Entry<Stack>, _: Option<&Holding>) -> BeforeFree {
        // The driver waits for kernels before it frees, and unmaps while they run.
        match self.has_placed(entry) {
            true => BeforeFree::Idle,
            false => BeforeFree::Nothing,
        }
    }

    fn acts_before_waits(&self) -> bool {
        self.awaits()
    }

    fn before_wait(&self, stream: Option<StreamName>) {
        if stream.is_none() {
            self.waiting_for(self.env.driver().current_context());
        }
    }

    fn waited(&self, stream: Option<StreamName>) {
        self.collect(stream.is_none());
    }

    fn context_gone(&self, context: u64, theirs: &[Entry<Stack>]) {
        self.leave_with_context(context);
        for entry in theirs {
            let base = entry.allocation.extent.base.0;
            let placed: Option<Placed> = self.state.lock().live.remove(&base);
            if let Some(placed) = placed {
                self.remove(&placed);
            }
        }
    }

    fn add_to(&self, coverage: &mut Coverage) {
        if self.kind != Kind::Unmapped {
            return;
        }
        let state = self.state.lock();
        let mut counts = state.counts.clone();
        counts.reused = state.ranges.reused();
        let sample = state.sample.as_ref();
        counts.seed = sample
            .and_then(|sample| sample.seed_if_partial())
            .unwrap_or(0);
        let is_used = counts.exact + counts.shared > 0 || !counts.elsewhere.is_empty();
        coverage.pages = is_used.then_some(counts);
    }
}
