//! What shadow memory adds as a protection, event by event.

use super::{Placed, Shadow, placed};
use crate::functions::Function;
use crate::memory::Holding;
use crate::protection::{ActsAt, BeforeFree, Leaves, Protection};
use crate::request::{Accounted, LaunchDecision, LaunchRequest, Submitted};
use crate::streams::{StreamName, Where};
use heap::{Entry, Held};
use host::Stack;
use model::{Coverage, Extent};
use std::sync::Arc;

impl Shadow {
    /// What is poisoned from now on takes effect when this has been waited for.
    fn launched(&self, place: Where) {
        let stream = match place {
            Where::Stream { name, .. } => Some(name),
            Where::Unknown => None,
            Where::Graph => return,
        };
        let context = self.env.driver().current_context();
        self.state.lock().poisoned.launched(stream, context);
    }
}

impl Protection for Shadow {
    fn acts_at(&self) -> ActsAt {
        ActsAt {
            decisions: true,
            launches: true,
            allocations: true,
            ..ActsAt::default()
        }
    }

    /// Decides nothing: what launches checked code comes after it.
    fn decide(
        &self,
        _: &Arc<Function>,
        _: &LaunchRequest<'_>,
        _: &mut LaunchDecision,
    ) -> Option<Accounted> {
        self.flush();
        None
    }

    fn part(&self, extent: Extent, is_addressable: bool) {
        self.mark(extent, is_addressable);
    }

    fn submitted(&self, launch: &Submitted<'_>) {
        self.launched(launch.place);
    }

    fn graph_launching(&self) {
        self.flush();
    }

    fn graph_submitted(&self, place: Where) {
        self.launched(place);
    }

    fn acts_before_waits(&self) -> bool {
        self.state.lock().poisoned.is_busy()
    }

    fn before_wait(&self, _: Option<StreamName>) {
        self.state.lock().poisoned.waits();
    }

    fn waited(&self, stream: Option<StreamName>) {
        let context = self.env.driver().current_context();
        let mut state = self.state.lock();
        let due = state.poisoned.waited(stream, context);
        self.poison_changed(&mut state, &due);
    }

    fn before_free(&self, entry: &Entry<Stack>, _: Option<&Holding>) -> BeforeFree {
        match self.of(entry.allocation.extent.base) {
            // Kernels that were launched before may access it; what they did is
            // judged by the memory as it was then.
            Some(_) => BeforeFree::Verified,
            None => BeforeFree::Nothing,
        }
    }

    fn freed(&self, entry: &Entry<Stack>, how: Leaves) {
        let base = entry.allocation.extent.base;
        let Some(placed) = self.of(base) else { return };
        // Until its memory is taken away, kernels may use it in stream order.
        if placed.is_at_own_addresses() {
            if let Leaves::InStream(stream) = how {
                self.freed_in(placed, stream.support());
            }
            return;
        }
        let is_over = matches!(how, Leaves::Now | Leaves::Held);
        match is_over && self.memory.is_held(base) {
            true => self.hold(placed),
            false => self.give_back(&[placed]),
        }
    }

    fn not_freed(&self, entry: &Entry<Stack>) {
        let redzones = entry.owner.redzones;
        if self.is_wanted() && redzones.bytes() > 0 {
            let extent = entry.allocation.extent;
            self.place(placed(extent, redzones, entry.owner.context), None);
        }
    }

    fn releasing(&self, held: &[Held<Holding>]) {
        let bases = held.iter().map(|held| held.extent.base);
        let buffers: Vec<Placed> = bases.filter_map(|base| self.of(base)).collect();
        self.give_back(&buffers);
    }

    fn context_gone(&self, context: u64, _: &[Entry<Stack>]) {
        let theirs: Vec<Placed> = {
            let state = self.state.lock();
            let all = state.placed.values();
            all.filter(|placed| placed.context == context && !placed.is_at_own_addresses())
                .copied()
                .collect()
        };
        self.give_back(&theirs);
    }

    fn add_to(&self, coverage: &mut Coverage) {
        if self.is_wanted() {
            coverage.shadow = Some(self.state.lock().counts.clone());
        }
    }
}
