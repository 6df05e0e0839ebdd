//! What needs the whole module: kernels end, and read nothing that others left.

use super::ends::Bounds;
use super::flow::Flow;
use super::intro::{self, Intro, Sequences};
use super::waits::{self, Ends};
use super::{Errors, residue};
use ptx::{Function, Mnemonic, Module};
use rustc_hash::{FxHashMap, FxHashSet};

/// A function with a body, as it is judged.
pub(super) struct Body<'m, 'a> {
    pub(super) function: &'m Function<'a>,
    flow: Flow<'m, 'a>,
    intro: Intro<'a>,
}

/// The functions of a module that have bodies, in the order of the text.
pub(super) fn bodies<'m, 'a>(module: &'m Module<'a>) -> Vec<Body<'m, 'a>> {
    let of = |function: &'m Function<'a>| {
        let flow = Flow::of(function, function.body.as_ref()?, module.source);
        let intro = intro::read(&flow, module.source);
        Some(Body {
            function,
            flow,
            intro,
        })
    };
    module.functions().filter_map(of).collect()
}

impl<'a> Body<'_, 'a> {
    /// What is known of its instructions.
    pub(super) fn sequences(&self, source: &str) -> Sequences<'a> {
        intro::sequences(&self.flow, &self.intro, source)
    }

    fn callees(&self) -> impl Iterator<Item = &'a str> + '_ {
        let instructions = self.flow.steps.iter().map(|step| step.instruction);
        let calls = instructions.filter(|i| i.opcode.mnemonic() == Mnemonic::Call);
        calls.filter_map(|call| Some(call.called_function()?.1))
    }
}

/// What the host must know of the kernels of a module.
#[derive(Default)]
pub(super) struct Found<'a> {
    /// Those that may wait for ever: where that is in doubt, and which launches end.
    pub(super) waiting: Vec<(u32, (&'a str, Ends))>,
    /// Bytes of shared memory that each block must have.
    pub(super) rooms: Vec<(&'a str, u64)>,
    /// Blocks of a grid from which on each must look where it begins.
    pub(super) grids: Vec<(&'a str, u64)>,
}

/// Judges all bodies; `shared` names the functions that access shared memory, with how
/// many bytes of it they take for granted.
pub(super) fn judge<'a>(
    bodies: &[Body<'_, 'a>],
    shared: &FxHashMap<&'a str, u64>,
    source: &str,
    errors: &mut Errors<'_>,
) -> Found<'a> {
    let by_name: FxHashMap<&str, &Body<'_, 'a>> = bodies
        .iter()
        .map(|body| (body.function.name, body))
        .collect();
    let mut bounds = Bounds::default();
    let mut reaching = shared.clone();
    let mut waits = waits::Judged::default();
    let mut out = Found::default();
    for body in callees_first(bodies, &by_name) {
        let (function, intro) = (body.function, &body.intro);
        let callees = body.callees().filter_map(|callee| reaching.get(callee));
        let own = reaching.get(function.name);
        let room = callees.chain(own).copied().max();
        if let Some(room) = room {
            reaching.insert(function.name, room);
        }
        if function.is_entry && room.is_some() && !intro.clears {
            let message = "it may read what others left in shared memory";
            errors.at(function.name_span, message);
        }
        if function.is_entry
            && let Some(room @ 1..) = room
        {
            out.rooms.push((function.name, room));
        }
        for step in body.flow.steps.iter().filter(|step| step.is_lost) {
            errors.at(
                step.instruction.span,
                "a branch to a label that is not found",
            );
        }
        bounds.judge(function, (&body.flow, intro), source, errors);
        residue::judge(function, &body.flow, intro, errors);
        let found = waits::judge(&body.flow, intro, function.is_entry, &waits);
        waits.insert(function.name, found);
        let (ends, at) = found.of_kernel();
        if function.is_entry && ends != Ends::Always {
            let at = at.unwrap_or(function.name_span.start);
            out.waiting.push((at, (function.name, ends)));
        }
    }
    out.grids = bounds.grids;
    out
}

/// Each body behind those that it calls. (Where calls lead to themselves, which
/// is an error of its own, in some order.)
fn callees_first<'b, 'm, 'a>(
    bodies: &'b [Body<'m, 'a>],
    by_name: &FxHashMap<&str, &'b Body<'m, 'a>>,
) -> Vec<&'b Body<'m, 'a>> {
    let mut order = Vec::with_capacity(bodies.len());
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    for root in bodies {
        let mut stack = vec![(root, false)];
        while let Some((body, is_done)) = stack.pop() {
            if is_done {
                order.push(body);
                continue;
            }
            if !seen.insert(body.function.name) {
                continue;
            }
            stack.push((body, true));
            for callee in body.callees() {
                if let Some(callee) = by_name.get(callee) {
                    stack.push((callee, false));
                }
            }
        }
    }
    order
}
