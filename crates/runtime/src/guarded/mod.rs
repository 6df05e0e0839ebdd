//! What the guard adds as a protection: kernels that allocate on the device heap
//! get copies that pass their launch on, and the canaries of its blocks are
//! verified. That the guard is there while kernels run, and away where a call
//! would wait for it, hooks ask of [`Watch`] itself.

mod heap_canaries;

pub(crate) use heap_canaries::HeapCanaries;

use crate::checked_copies::Copies;
use crate::functions::{Build, Function, Proved};
use crate::prepare::Wanted;
use crate::protection::{ActsAt, Protection};
use crate::records::Records;
use crate::request::{LaunchDecision, LaunchRequest};
use crate::roots::Roots;
use crate::streams::StreamName;
use crate::watch::Watch;
use heap::Entry;
use host::Stack;
use instrument::LaunchShape;
use model::layout::Record;
use model::layout::records::HEAP_RECORD;
use model::{Coverage, Note};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Guarded {
    watch: Arc<Watch>,
    heap_canaries: HeapCanaries,
    copies: Arc<Copies>,
    records: Arc<Records>,
}

impl Protection for Guarded {
    fn wants(&self) -> Wanted {
        Wanted::DeviceHeap
    }

    fn acts_at(&self) -> ActsAt {
        ActsAt {
            extensions: true,
            ..ActsAt::default()
        }
    }

    fn extend(
        &self,
        function: &Arc<Function>,
        request: &LaunchRequest<'_>,
        decision: &mut LaunchDecision,
    ) {
        if let Some(copy) = self.copy(function, request.shape) {
            *decision = copy;
        }
    }

    fn waited(&self, stream: Option<StreamName>) {
        if let Some(stream) = stream {
            self.watch.stream_waited_for(stream);
        }
    }

    fn synchronized(&self) {
        self.heap_canaries.verify_unguarded();
    }

    fn context_gone(&self, context: u64, _theirs: &[Entry<Stack>]) {
        self.watch.context_gone(context);
    }

    fn record(&self, record: &Record) -> bool {
        let is_ours = record.module == HEAP_RECORD && self.heap_canaries.claims(record);
        if is_ours {
            self.heap_canaries.overwritten(record);
        }
        is_ours
    }

    fn finish(&self) {
        self.watch.end();
    }

    fn add_to(&self, coverage: &mut Coverage) {
        let not_watched = self.watch.not_watched();
        if not_watched != 0 {
            coverage.notes.insert(Note::NotWatched, not_watched);
        }
    }
}

impl Guarded {
    pub fn new(
        watch: Arc<Watch>,
        heap_canaries: HeapCanaries,
        copies: Arc<Copies>,
        records: Arc<Records>,
    ) -> Guarded {
        Guarded {
            watch,
            heap_canaries,
            copies,
            records,
        }
    }

    /// Without bounds, of a kernel whose module allocates on the device heap:
    /// the copy that passes the launch on, so that blocks know theirs.
    fn copy(&self, function: &Arc<Function>, shape: &LaunchShape) -> Option<LaunchDecision> {
        let plan = function.plan.as_ref()?;
        if !plan.uses_device_heap() || plan.unchecked_reason().is_some() {
            return None;
        }
        // The program's own kernels allocate there, too.
        self.copies.make_ready(plan, None).ok()?;
        self.records.expect();
        let copy = function.copies.checked.filter(|_| !function.excluded)?;
        self.copies
            .launch(
                function,
                shape,
                (Build::Checked, copy),
                Roots::new(),
                Proved::Nothing,
            )
            .ok()
    }
}
