//! A protection that adds nothing: one file, and one line where it is put beside
//! the others. Each event of a run reaches it, and nothing is decided or found
//! otherwise than without it.

use super::fake::{Bench, CONTEXT, Fake, KERNEL, MODULE, extent, module, record};
use crate::functions::Function;
use crate::memory::Holding;
use crate::prepare::Wanted;
use crate::protection::{ActsAt, BeforeFree, Leaves, Placement, PlacementRequest, Protection};
use crate::request::{Accounted, LaunchRequest, Submitted};
use crate::{FreeCall, FreeRequest, LaunchDecision, Owner, StreamName, StreamUse, Where};
use driver::sys::CUresult;
use heap::{Entry, Held};
use host::Stack;
use model::layout::Record;
use model::{
    AllocationKind, Coverage, DeviceAddress, ElsewhereReason, Extent, Protections, Settings,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often each event reached it.
#[derive(Default)]
struct NoneAtAll {
    events: Mutex<BTreeMap<&'static str, u32>>,
}

impl NoneAtAll {
    fn reached(&self, event: &'static str) {
        *self.events.lock().entry(event).or_default() += 1;
    }
}

impl Protection for NoneAtAll {
    fn wants(&self) -> Wanted {
        self.reached("wants");
        Wanted::Nothing
    }

    fn acts_at(&self) -> ActsAt {
        ActsAt {
            decisions: true,
            extensions: true,
            launches: true,
            unchecked: true,
            allocations: true,
            placements: true,
        }
    }

    fn place(&self, request: &PlacementRequest) -> Option<Placement> {
        assert_eq!(request.obstacle, None);
        self.reached("place");
        None
    }

    fn elsewhere(&self, _: ElsewhereReason) {
        self.reached("elsewhere");
    }

    fn has_placed(&self, _: &Entry<Stack>) -> bool {
        self.reached("has_placed");
        false
    }

    fn give_back(&self, _: &Entry<Stack>, _: Leaves) -> bool {
        self.reached("give_back");
        false
    }

    fn make_room(&self) -> bool {
        self.reached("make_room");
        false
    }

    fn decide(
        &self,
        _: &Arc<Function>,
        _: &LaunchRequest<'_>,
        _: &mut LaunchDecision,
    ) -> Option<Accounted> {
        self.reached("decide");
        None
    }

    fn extend(&self, _: &Arc<Function>, _: &LaunchRequest<'_>, _: &mut LaunchDecision) {
        self.reached("extend");
    }

    fn before_unchecked(&self) -> bool {
        self.reached("before_unchecked");
        false
    }

    fn submitted(&self, _: &Submitted<'_>) {
        self.reached("submitted");
    }

    fn refused(&self, function: u64) {
        assert_eq!(function, KERNEL);
        self.reached("refused");
    }

    fn graph_submitted(&self, _: Where) {
        self.reached("graph_submitted");
    }

    fn allocated(&self, _: Extent) {
        self.reached("allocated");
    }

    fn before_free(&self, _: &Entry<Stack>, _: Option<&Holding>) -> BeforeFree {
        self.reached("before_free");
        BeforeFree::Nothing
    }

    fn freed(&self, _: &Entry<Stack>, how: Leaves) {
        self.reached(match how {
            Leaves::Now => "freed",
            Leaves::Held => "freed and held",
            Leaves::InStream(_) => "freed in a stream",
            Leaves::InCapture(_) => "freed in a capture",
        });
    }

    fn not_freed(&self, _: &Entry<Stack>) {
        self.reached("not_freed");
    }

    fn releasing(&self, _: &[Held<Holding>]) {
        self.reached("releasing");
    }

    fn acts_before_waits(&self) -> bool {
        self.reached("acts_before_waits");
        false
    }

    fn before_wait(&self, _: Option<StreamName>) {
        self.reached("before_wait");
    }

    fn waited(&self, _: Option<StreamName>) {
        self.reached("waited");
    }

    fn synchronized(&self) {
        self.reached("synchronized");
    }

    fn stream_ending(&self, _: StreamName) {
        self.reached("stream_ending");
    }

    fn context_gone(&self, context: u64, _: &[Entry<Stack>]) {
        assert_eq!(context, CONTEXT);
        self.reached("context_gone");
    }

    fn context_destroyed(&self) {
        self.reached("context_destroyed");
    }

    fn record(&self, _: &Record) -> bool {
        self.reached("record");
        false
    }

    fn exit_begins(&self) {
        self.reached("exit_begins");
    }

    fn finish(&self) {
        self.reached("finish");
    }

    fn add_to(&self, _: &mut Coverage) {
        self.reached("add_to");
    }
}

const A: u64 = 0x7f00_0000_0000;
const B: u64 = 0x7f00_0000_1000;
const C: u64 = 0x7f00_0000_2000;
const D: u64 = 0x7f00_0000_3000;
const STREAM: StreamUse = StreamUse {
    name: StreamName::Made(5),
    context: CONTEXT,
    blocking: true,
};
const PLACE: Where = Where::Stream {
    name: STREAM.name,
    handle: 5,
    per_thread: false,
};

fn free(bench: &Bench, address: u64, call: FreeCall, capturing: bool, answer: CUresult) {
    let request = FreeRequest {
        function: "cuMemFree_v2",
        call,
        address: DeviceAddress(address),
        capturing,
    };
    let answered = bench.runtime.frees().free(request, &|_| answer);
    assert!([answer, CUresult::CUDA_SUCCESS].contains(&answered));
}

/// What a run came to: decisions, findings and what was checked.
#[derive(Debug, PartialEq)]
struct Outcome {
    decisions: Vec<String>,
    findings: String,
    coverage: Coverage,
}

/// A run in which everything happens.
fn run(protect: Protections, more: Vec<Arc<dyn Protection>>) -> Outcome {
    let settings = Settings {
        protect,
        ..Settings::default()
    };
    let bench = Bench::with_protections(settings, Fake::default(), module(true), more);
    let runtime = &bench.runtime;
    let owner = Owner {
        context: CONTEXT,
        ..Owner::default()
    };
    let allocate = |base, kind| {
        let allocations = runtime.allocations();
        allocations.allocated_by(kind, extent(base, 64), owner);
    };
    let request = PlacementRequest {
        size: 64,
        in_stream_order: false,
        obstacle: None,
    };
    assert_eq!(runtime.placements().place(&request), None);
    runtime.placements().elsewhere(ElsewhereReason::Managed);
    for base in [A, B, C, D] {
        allocate(base, AllocationKind::Device);
    }
    let mut decisions = Vec::new();
    let mut decided = |decision: &LaunchDecision| decisions.push(format!("{decision:?}"));
    let pointers = |offset| Some(if offset == 0 { A } else { B + 60 });
    let read = |_: &crate::EntryPlan, offset, _| pointers(offset);
    for place in [PLACE, Where::Graph] {
        let ticket = bench.begin_of(KERNEL, &read);
        decided(ticket.decision());
        ticket.submitted(place);
    }
    let ticket = bench.begin_of(KERNEL, &read);
    decided(ticket.decision());
    ticket.refused();
    let unknown = bench.begin_of(0x99, &read);
    decided(unknown.decision());
    unknown.submitted(PLACE);
    runtime.launcher().graph_launching(None);
    runtime.launcher().graph_launched(PLACE);
    if protect.bounds {
        // Else nothing leaves records.
        assert!(bench.device.leave(record(1, A + 64, 1)));
    }
    let waits = runtime.host_waits();
    waits.acts_before();
    waits.before(Some(STREAM.name));
    waits.waited_for(STREAM.name);
    runtime.synchronized();
    waits.before(None);
    waits.waited_for_context(CONTEXT);
    runtime.synchronized();
    let (done, refused) = (CUresult::CUDA_SUCCESS, CUresult::CUDA_ERROR_INVALID_VALUE);
    free(&bench, A, FreeCall::Free, false, done);
    let in_stream = FreeCall::FreeAsync { stream: STREAM };
    free(&bench, B, in_stream, false, done);
    free(&bench, C, FreeCall::Free, true, refused);
    free(&bench, C, FreeCall::Free, true, done);
    assert!(runtime.frees().empty_quarantine());
    runtime.frees().stream_ending(5);
    runtime.modules().unloading(MODULE);
    runtime.context_gone(Some(CONTEXT));
    runtime.ending().exit_begins();
    runtime.ending().end();
    let findings = bench.process().findings;
    Outcome {
        decisions,
        findings: format!("{findings:#?}"),
        coverage: runtime.ending().coverage(),
    }
}

#[test]
fn each_event_reaches_it_and_nothing_is_otherwise() {
    for (bounds, canary, watch) in [
        (true, true, false),
        (true, false, true),
        (false, true, false),
        (false, false, true),
    ] {
        let protect = Protections {
            bounds,
            canary,
            watch,
            shadow: false,
            pages: false,
        };
        let none = Arc::new(NoneAtAll::default());
        // From one place: call stacks are part of findings.
        let [with, without] =
            [vec![none.clone() as Arc<dyn Protection>], Vec::new()].map(|more| run(protect, more));
        assert_eq!(with, without, "{protect:?}");
        assert_eq!(with.decisions.len(), 4);
        assert_eq!(with.findings.contains("GlobalOutOfBoundsWrite"), bounds);
        let events: Vec<&str> = none.events.lock().keys().copied().collect();
        let mut expected = vec![
            "acts_before_waits",
            "add_to",
            "allocated",
            "before_free",
            "before_unchecked",
            "before_wait",
            "context_destroyed",
            "context_gone",
            "decide",
            "elsewhere",
            "exit_begins",
            "finish",
            "freed",
            "freed in a capture",
            "freed in a stream",
            "give_back",
            "graph_submitted",
            "has_placed",
            "make_room",
            "not_freed",
            "place",
            "record",
            "refused",
            "releasing",
            "stream_ending",
            "submitted",
            "synchronized",
            "waited",
            "wants",
        ];
        if !bounds {
            // Where no protection decides.
            expected.push("extend");
            expected.sort_unstable();
            expected.retain(|event| *event != "record");
        }
        assert_eq!(events, expected, "{protect:?}");
    }
}
