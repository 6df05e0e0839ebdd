//! The code at the top of a checked body and at each of its exits.

use super::aligned::Aligned;
use super::emit::Emit;
use super::inside::InSpace;
use super::pieces::lookup;
use super::plan::{Call, Source};
use super::source::is_of_text;
use super::text::*;
use super::window::Window;
use crate::parameters;
use crate::patch::line;
use crate::protocol::{
    APPEND, IN_SPACE_SITE, LABEL_PREFIX, LAST_SITE, LEAVE, MOST_ROUNDS, OBJECT_SHIFT,
};
use crate::support::{RESERVED_SHARED, Scratch, Values};
use analysis::{Root, RootId};
use model::layout::{LAUNCH_PARAMETER, LaunchBounds, LaunchHeader};
use ptx::Guard;
use rustc_hash::FxHashSet;
use std::fmt::Display;

/// The registers that a record is written from.
struct Told {
    site: Op<'static>,
    address: Op<'static>,
    /// None if the host knows them.
    bounds: Option<(Op<'static>, Op<'static>)>,
}

impl Emit<'_, '_, '_> {
    /// Writes a record where a thread leaves, if it has one.
    pub(super) fn report(&mut self, guard: Option<Guard<'_>>, out: &mut String) {
        if self.plan.is_empty() {
            return;
        }
        let reported = match self.may_end_in.is_empty() {
            true => Op::Constant(0),
            false => REPORTED,
        };
        match guard {
            None => line!(out, "setp.eq.s32 {OUTSIDE}, {SITE}, {reported};"),
            Some(Guard {
                negated, register, ..
            }) => {
                let not = if negated { "" } else { "!" };
                line!(
                    out,
                    "setp.eq.or.s32 {OUTSIDE}, {SITE}, {reported}, {not}{register};"
                );
            }
        }
        let done = self.done();
        line!(out, "@{OUTSIDE} bra {done};");
        self.record(false, &done, out);
        line!(out, "{done}:");
    }

    /// Counts how often a thread that has failed a check comes to an open loop. Nothing
    /// comes back from where it leaves, so that the compiler need not let lanes wait for
    /// each other here.
    pub(super) fn count_rounds(&self, out: &mut String) {
        line!(out, "setp.ne.s32 {OTHER}, {SITE}, 0;");
        line!(out, "@{OTHER} add.u32 {ROUNDS}, {ROUNDS}, 1;");
        line!(out, "setp.ge.u32 {OTHER}, {ROUNDS}, {MOST_ROUNDS};");
        line!(out, "@{OTHER} bra {LEAVE};");
    }

    /// Where threads leave open loops.
    pub(super) fn leave(&mut self, out: &mut String) {
        line!(out, "{LEAVE}:");
        let done = self.done();
        self.record(true, &done, out);
        line!(out, "{done}:");
        line!(out, "exit;");
    }

    /// Writes the record of the last check that failed; jumps to `full` if the ring is.
    fn record(&self, ends: bool, full: &str, out: &mut String) {
        let scratch = Scratch {
            wide: [&OFFSET, &SCRATCH, &SCRATCH2],
            narrow: [&RECORD_WORD, &RECORD_PART],
            predicates: [&OUTSIDE, &OTHER],
        };
        let told = self.tell(out);
        let values = Values {
            site: &told.site,
            address: &told.address,
            bounds: told.bounds.as_ref().map(|(base, size)| {
                let (base, size): (&dyn Display, &dyn Display) = (base, size);
                (base, size)
            }),
            launch: self.plan.launch.then_some(LAUNCH_PARAMETER),
            ends,
        };
        self.reports.record.write(&scratch, &values, &full, out);
    }

    /// Where the object begins that a check was of.
    fn find_object(&self, in_space: &InSpace, out: &mut String) -> Op<'static> {
        let of = |root: &RootId| Op::Family(IN_SPACE, root.0);
        let (first, others) = match &in_space.objects[..] {
            _ if in_space.are_many() => return SPACE_BASE,
            [] => return SPACE_BASE,
            [only] => return of(only),
            [first, others @ ..] => (first, others),
        };
        let most = (IN_SPACE_SITE >> OBJECT_SHIFT) - 1;
        line!(out, "mov.b32 {SPACE_BASE}, {};", of(first));
        line!(out, "shr.u32 {RECORD_PART}, {SITE}, {OBJECT_SHIFT};");
        line!(out, "and.b32 {RECORD_PART}, {RECORD_PART}, {most};");
        for (root, number) in others.iter().zip(1..) {
            line!(out, "setp.eq.s32 {OTHER}, {RECORD_PART}, {number};");
            line!(
                out,
                "selp.b32 {SPACE_BASE}, {}, {SPACE_BASE}, {OTHER};",
                of(root)
            );
        }
        SPACE_BASE
    }

    /// Finds what the record is to say: checks of objects in spaces of their own keep only
    /// what differs among them.
    fn tell(&self, out: &mut String) -> Told {
        let has_bounds = self.plan.records_bounds;
        let Some(in_space) = &self.in_space else {
            return Told {
                site: SITE,
                address: ADDRESS,
                bounds: has_bounds.then_some((RECORD_BASE, RECORD_SIZE)),
            };
        };
        let base = self.find_object(in_space, out);
        line!(out, "setp.lt.s32 {OTHER}, {SITE}, 0;");
        line!(out, "cvt.u64.u32 {TOLD_ADDRESS}, {SPACE_ADDRESS};");
        line!(
            out,
            "selp.b64 {TOLD_ADDRESS}, {TOLD_ADDRESS}, {ADDRESS}, {OTHER};"
        );
        line!(out, "cvt.u64.u32 {TOLD_BASE}, {base};");
        line!(
            out,
            "selp.b64 {TOLD_BASE}, {TOLD_BASE}, {RECORD_BASE}, {OTHER};"
        );
        let size = match in_space.is_dynamic {
            true => {
                line!(out, "cvt.u64.u32 {TOLD_SIZE}, {DYNAMIC};");
                line!(
                    out,
                    "selp.b64 {TOLD_SIZE}, {TOLD_SIZE}, {RECORD_SIZE}, {OTHER};"
                );
                TOLD_SIZE
            }
            false => RECORD_SIZE,
        };
        line!(out, "and.b32 {RECORD_PART}, {SITE}, {};", LAST_SITE);
        Told {
            site: RECORD_PART,
            address: TOLD_ADDRESS,
            bounds: Some((TOLD_BASE, size)),
        }
    }

    /// Stops a thread that has failed a check, after its record. The guard of the
    /// trap is a register of its own, so that the verifier can distinguish it from
    /// the program's code.
    pub(super) fn trap(&mut self, out: &mut String) {
        line!(out, "setp.eq.s32 {UNHARMED}, {SITE}, 0;");
        let done = self.done();
        line!(out, "@{UNHARMED} bra {done};");
        self.append(out);
        line!(out, "@!{UNHARMED} trap;");
        line!(out, "{done}:");
    }

    /// Writes a record before an instruction that may end the kernel. A thread
    /// that goes on, and is here again, does not repeat it. The record is written
    /// by a function: code that calls has a frame anyway.
    pub(super) fn report_before_end(&mut self, out: &mut String) {
        line!(out, "setp.eq.s32 {OUTSIDE}, {SITE}, {REPORTED};");
        let done = self.done();
        line!(out, "@{OUTSIDE} bra {done};");
        self.append(out);
        line!(out, "mov.u32 {REPORTED}, {SITE};");
        line!(out, "{done}:");
    }

    /// Calls the function that writes a record.
    fn append(&self, out: &mut String) {
        let told = self.tell(out);
        if self.plan.launch {
            line!(out, "ld.param.b64 {SCRATCH}, [{LAUNCH_PARAMETER}];");
        } else {
            line!(out, "mov.b64 {SCRATCH}, 0;");
        }
        let (base, size) = told.bounds.unwrap_or((Op::Constant(0), Op::Constant(0)));
        line!(out, "{{");
        line!(out, ".param .b32 __ringfence_0;");
        line!(
            out,
            ".param .b64 __ringfence_1, __ringfence_2, __ringfence_3, __ringfence_4;"
        );
        line!(out, "st.param.b32 [__ringfence_0], {};", told.site);
        line!(out, "st.param.b64 [__ringfence_1], {};", told.address);
        line!(out, "st.param.b64 [__ringfence_2], {base};");
        line!(out, "st.param.b64 [__ringfence_3], {size};");
        line!(out, "st.param.b64 [__ringfence_4], {SCRATCH};");
        line!(
            out,
            "call {APPEND}, (__ringfence_0, __ringfence_1, __ringfence_2, __ringfence_3, __ringfence_4);"
        );
        line!(out, "}}");
    }

    /// A label behind the code that leaves a record.
    fn done(&mut self) -> String {
        let number = self.labels;
        self.labels += 1;
        format!("{LABEL_PREFIX}done{number}")
    }

    /// Declarations and values that are computed once, at the top of the body.
    pub(super) fn head(&self, out: &mut String) {
        out.push_str("\n\t");
        self.declare(out);
        self.start(out);
        // (Shadow memory needs bounds of parameters only where the launch passes them.)
        let has_bounds = self.plan.shadow.is_none() || self.plan.launch;
        let is_had = |root: &RootId| has_bounds || is_of_text(self.analysis, self.nameable, *root);
        for root in sorted(&self.plan.needed).into_iter().filter(is_had) {
            if self.bounds_at_start(root, out).is_some() {
                self.limits_of(root, out);
            }
        }
        self.ranges(out);
        self.addresses_in_spaces(out);
    }

    /// Strings that are checked before they are printed.
    fn strings(&self) -> usize {
        let strings = self.plan.prints.iter().map(|print| print.strings.len());
        strings.sum()
    }

    /// Declares the registers that checks use.
    fn declare(&self, out: &mut String) {
        let plan = self.plan;
        line!(out, ".reg .pred {OUTSIDE}, {OTHER};");
        if self.reports.traps {
            line!(out, ".reg .pred {UNHARMED};");
        }
        if self.plan.kept_verdicts > 0 {
            line!(out, ".reg .pred {KEPT}<{}>;", self.plan.kept_verdicts);
        }
        let strings = self.strings();
        if strings > 0 {
            line!(out, ".reg .pred {CUT}<{strings}>;");
        }
        line!(out, ".reg .b32 {SITE}, {RECORD_WORD}, {RECORD_PART};");
        if !self.may_end_in.is_empty() {
            line!(out, ".reg .b32 {REPORTED};");
        }
        if !self.open_loops.is_empty() {
            line!(out, ".reg .b32 {ROUNDS};");
        }
        line!(
            out,
            ".reg .b64 {ADDRESS}, {RECORD_BASE}, {RECORD_SIZE}, {WEAK_BASE}, {WEAK_SIZE};"
        );
        line!(out, ".reg .b64 {OFFSET}, {SCRATCH}, {SCRATCH2};");
        if self.plan.shadow.is_some() && !self.plan.groups.is_empty() {
            let at = self.plan.launch_window();
            let at = (self.plan.launch && self.plan.takes_window).then_some(at as u64);
            crate::shadow::declare(at, self.ahead.is_some(), out);
        }
        if !self.plan.returned_bounds.stores.is_empty() {
            line!(out, ".reg .b64 {GIVEN_BASE}, {GIVEN_SIZE};");
        }
        self.declare_of_windows(out);
        self.declare_of_indices(out);
        if plan.has_windows(self.analysis) || plan.groups.iter().any(|group| group.skips) {
            line!(out, ".reg .pred {GO}<{}>;", plan.groups.len());
        }
        if self.plan.groups.iter().any(|group| group.stops) {
            line!(out, ".reg .pred {STOP}, {GO_ON};");
        }
        if self
            .plan
            .groups
            .iter()
            .any(|g| g.aligned == Aligned::Tested)
        {
            line!(out, ".reg .b32 {LOW_BITS};");
        }
        if self.plan.groups.iter().any(|group| group.lanes < 32) {
            line!(out, ".reg .b32 {LANE};");
            line!(out, "mov.u32 {LANE}, %laneid;");
        }
        if self.has_trials {
            line!(out, ".reg .pred {FAR};");
        }
        if let Some((narrow, wide)) = self.ahead {
            line!(out, ".reg .pred {SLOW};");
            line!(out, ".reg .b64 {PASSES}, {WIDE}<{}>;", wide.max(1));
            line!(out, ".reg .b32 {NARROW}<{}>;", narrow.max(1));
        }
        self.declare_families(out);
    }

    /// Registers of which there is one for each of something.
    fn declare_families(&self, out: &mut String) {
        let roots = self.analysis.provenance.roots.len();
        let strings = self.strings();
        let through = |call: &Call| call.through.is_some();
        let calls_through = match self.plan.calls.iter().rposition(through) {
            Some(last) => last + 1,
            None => 0,
        };
        for (family, count) in [
            (REDIRECTED, self.plan.groups.len()),
            (ROOT_BASE, roots),
            (ROOT_SIZE, roots),
            (LIMIT, self.limit_list.len()),
            (SHADOW_BASE, self.shadows.len()),
            (SHADOW_SIZE, self.shadows.len()),
            (PASSED_BASE, self.passed.len()),
            (PASSED_SIZE, self.passed.len()),
            (CALLEE, calls_through),
            (TEXT, strings),
        ] {
            if count > 0 {
                line!(out, ".reg .b64 {family}<{count}>;");
            }
        }
    }

    /// Initial values: no check has failed, and refreshed bounds are empty.
    fn start(&self, out: &mut String) {
        line!(out, "mov.u32 {SITE}, 0;");
        if !self.may_end_in.is_empty() {
            line!(out, "mov.u32 {REPORTED}, 0;");
        }
        if !self.open_loops.is_empty() {
            line!(out, "mov.u32 {ROUNDS}, 0;");
        }
        line!(out, "mov.b64 {ADDRESS}, 0;");
        if self.plan.records_bounds {
            line!(out, "mov.b64 {RECORD_BASE}, 0;");
            line!(out, "mov.b64 {RECORD_SIZE}, 0;");
        }
        if self.refreshed {
            for root in self.looked_up() {
                line!(out, "mov.b64 {}, 0;", Op::Family(ROOT_BASE, root.0));
                line!(out, "mov.b64 {}, 0;", Op::Family(ROOT_SIZE, root.0));
            }
            for number in 0..self.shadows.len() as u32 {
                line!(out, "mov.b64 {}, 0;", Op::Family(SHADOW_BASE, number));
                line!(out, "mov.b64 {}, 0;", Op::Family(SHADOW_SIZE, number));
            }
        }
    }

    /// Base and size of a root that is there from the start; `None` for any
    /// other.
    fn bounds_at_start(&self, root: RootId, out: &mut String) -> Option<()> {
        let (base, size) = (Op::Family(ROOT_BASE, root.0), Op::Family(ROOT_SIZE, root.0));
        match self.analysis.provenance.root(root) {
            Some(Root::KernelParameter { offset }) if self.plan.launch => {
                let place = self
                    .plan
                    .roots
                    .iter()
                    .position(|&o| o == offset)
                    .unwrap_or(0);
                let at = size_of::<LaunchHeader>() + place * size_of::<LaunchBounds>();
                let size_at = at + std::mem::offset_of!(LaunchBounds, size);
                line!(out, "ld.param.b64 {base}, [{LAUNCH_PARAMETER}+{at}];");
                line!(out, "ld.param.b64 {size}, [{LAUNCH_PARAMETER}+{size_at}];");
            }
            Some(Root::KernelParameter { offset }) => {
                let (name, at) = parameters::holding(self.analysis.code.function, offset)?;
                line!(out, "ld.param.b64 {SCRATCH2}, [{name}+{at}];");
                lookup(SCRATCH2, None, base, size, out);
            }
            Some(Root::Variable { symbol }) => {
                let symbol = &self.analysis.code.symbols[symbol.0 as usize];
                line!(out, "mov.u64 {base}, {};", symbol.name);
                if symbol.size.is_none() {
                    lookup(base, None, base, size, out);
                }
            }
            Some(Root::Whole { .. } | Root::Part { .. }) => self.place(root, out),
            _ => return None,
        }
        Some(())
    }

    /// Addresses of places as their own spaces have them.
    fn addresses_in_spaces(&self, out: &mut String) {
        for root in sorted(&self.plan.needed_in_space_wide) {
            let Some(place) = self.analysis.place(root) else {
                continue;
            };
            let name = self.analysis.code.symbols[place.symbol.0 as usize].name;
            let base = Op::Family(IN_SPACE_WIDE, root.0);
            line!(out, "mov.u64 {base}, {name};");
            if place.start > 0 {
                line!(out, "add.s64 {base}, {base}, {};", place.start);
            }
        }
        for root in sorted(&self.plan.needed_in_space) {
            let Some(place) = self.analysis.place(root) else {
                continue;
            };
            let name = self.analysis.code.symbols[place.symbol.0 as usize].name;
            let base = Op::Family(IN_SPACE, root.0);
            line!(out, "mov.u64 {SCRATCH}, {name};");
            line!(out, "cvt.u32.u64 {base}, {SCRATCH};");
            if place.start > 0 {
                line!(out, "add.s32 {base}, {base}, {};", place.start);
            }
        }
    }

    /// Generic address and size of a place in a window.
    fn place(&self, root: RootId, out: &mut String) {
        let Some(place) = self.analysis.place(root) else {
            return;
        };
        let Some(window) = Window::of_symbol(place.space) else {
            return;
        };
        let name = self.analysis.code.symbols[place.symbol.0 as usize].name;
        let base = Op::Family(ROOT_BASE, root.0);
        line!(out, "mov.u64 {base}, {name};");
        line!(out, "cvta.{}.u64 {base}, {base};", window.modifier());
        if place.start > 0 {
            line!(out, "add.s64 {base}, {base}, {};", place.start);
        }
        if place.size.is_none() {
            line!(
                out,
                "cvt.u64.u32 {}, {DYNAMIC};",
                Op::Family(ROOT_SIZE, root.0)
            );
        }
    }

    /// Registers that only checks of indices need.
    fn declare_of_indices(&self, out: &mut String) {
        let ranges = self.plan.launch_indices.len();
        if !self.plan.launch || ranges == 0 {
            return;
        }
        line!(out, ".reg .b32 {INDEX_FROM}<{ranges}>;");
        line!(out, ".reg .b32 {INDEX_SPAN}<{ranges}>;");
        if !self.plan.has_windows(self.analysis) {
            line!(out, ".reg .b32 {OFFSET32};");
        }
    }

    /// Registers that only checks in windows need.
    fn declare_of_windows(&self, out: &mut String) {
        let plan = self.plan;
        if !plan.has_windows(self.analysis) {
            return;
        }
        let roots = self.analysis.provenance.roots.len();
        line!(out, ".reg .b32 {POINTER32}, {OFFSET32}, {LIMIT32};");
        line!(out, ".reg .b32 {DYNAMIC}, {BLOCK};");
        line!(out, ".reg .b64 {GENERIC};");
        if let Some(in_space) = &self.in_space {
            line!(out, ".reg .b32 {SPACE_ADDRESS};");
            if in_space.objects.len() > 1 {
                line!(out, ".reg .b32 {SPACE_BASE};");
            }
            line!(out, ".reg .b64 {TOLD_ADDRESS}, {TOLD_BASE}, {TOLD_SIZE};");
        }
        if roots > 0 {
            line!(out, ".reg .b32 {IN_SPACE}<{roots}>;");
            line!(out, ".reg .b64 {IN_SPACE_WIDE}<{roots}>;");
        }
        let in_space = plan
            .needed_in_space
            .iter()
            .chain(&plan.needed_in_space_wide);
        let places = plan.needed.iter().chain(in_space);
        let sources = plan.groups.iter().map(|group| group.source);
        let dynamic = |root| self.analysis.place(root).is_some_and(|p| p.size.is_none());
        if places.copied().any(dynamic) || sources.clone().any(|s| s == Source::Dynamic) {
            line!(out, "mov.u32 {DYNAMIC}, %dynamic_smem_size;");
        }
        if sources.clone().any(|s| s == Source::Block) {
            line!(out, "mov.u32 {BLOCK}, %total_smem_size;");
            line!(out, "add.s32 {BLOCK}, {BLOCK}, {RESERVED_SHARED};");
        }
    }
}

/// In order of number: the sets have none of their own, the text must have one.
fn sorted(roots: &FxHashSet<RootId>) -> Vec<RootId> {
    let mut roots: Vec<RootId> = roots.iter().copied().collect();
    roots.sort_unstable();
    roots
}
