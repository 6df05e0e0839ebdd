//! Threads do not wait for each other for ever once they must end.
//!
//! A thread *waits in hardware*, and cannot look at the word that ends kernels, at a
//! barrier of the block, and in an instruction that several lanes of a warp execute
//! together: `bar.warp.sync`, `shfl.sync` and the like, and all that are `.aligned`.
//! All other waits are loops, which look (`ends`). Barriers are all the first one of the
//! block, for all of its threads that have not exited (`lanes`).
//!
//! **Argument.** Once the word is set, each thread exits, or waits in hardware. If it
//! waits, then for threads that wait elsewhere. A kernel is *proved* to end if that
//! cannot be:
//!
//! * Where no instruction waits for lanes, and no barrier is `.aligned`, all threads that
//!   are left wait at the one barrier, which opens. (Lanes that come to `bar.sync 0` at
//!   different places, or not equally often, wait there for ever on an H200; at
//!   `barrier.sync 0` they do not. So one that is aligned counts as a wait for lanes.)
//! * An instruction for the lanes of a mask that `activemask` has just made, without a
//!   label, a branch, a barrier or a call between, waits for none but those that
//!   executed the `activemask` together, and are on their way to it. It counts as no
//!   wait.
//! * Else, the lanes of each warp must *wait in the same order*: the k-th wait of each
//!   lane, if it has so many, is at the same instruction, and is for all lanes of the
//!   warp. Then those lanes of a warp that have the fewest waits behind them wait at the
//!   same place. If that is an instruction for lanes, all lanes of the warp have executed
//!   it so often or are there, or have exited: they go on. If it is the barrier, all
//!   lanes of the warp are there, because it opens for no thread before all have arrived.
//!   So all threads that are left are at the barrier, which opens.
//!
//! Lanes wait in the same order if each branch that decides which wait is next goes the
//! same way for all lanes of a warp. So each value is *uniform*, which is the same for all
//! lanes of a warp that have as many waits behind them; *uniform in flat blocks*, which is
//! so if each warp has lanes of one row (the number of threads in x is a multiple of 32,
//! or that in y and z is 1); or neither. A register is uniform if all instructions that
//! write it compute from such values, and none of them is on a way from a branch that may
//! go several ways to where these meet again; on such a way it may still be written with
//! what never changes in a launch. Calls of functions that wait are waits, and so is their
//! return.
//!
//! A kernel that is not proved to end is accepted: whether it runs is decided by the host.

use super::dominance;
use super::flow::Flow;
use super::intro::Intro;
use super::uniform::{Values, may_write};
use ptx::table::Convergence;
use ptx::{Mnemonic, Modifier, OperandKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// Whether kernels of a launch end, in the order in which less is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ends {
    /// Whatever the launch is.
    #[default]
    Always,
    /// If each warp has threads of one row: the block's size in x is a multiple of 32,
    /// or those in y and z are 1.
    InFlatBlocks,
    /// Threads may wait for each other for ever.
    Unknown,
}

/// A kernel of which not all launches are proved to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub kernel: String,
    /// The line at which threads of a warp may go different ways to different waits, or
    /// wait for some lanes of their warp only; from 1.
    pub line: u32,
    /// Which launches end.
    pub ends: Ends,
}

/// What a function does about waits, with all that it calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// It waits in hardware.
    waits: bool,
    /// It waits for lanes.
    for_lanes: bool,
    ends: Ends,
    /// The instruction that the answer is about, by where it begins in the text.
    at: Option<u32>,
}

impl Waits {
    /// What is known of a kernel that does this, and where it is in doubt.
    pub(super) fn of_kernel(&self) -> (Ends, Option<u32>) {
        match self.for_lanes {
            true => (self.ends, self.at),
            false => (Ends::Always, None),
        }
    }

    fn doubt(&mut self, ends: Ends, at: u32) {
        if ends > self.ends {
            (self.ends, self.at) = (ends, Some(at));
        }
    }
}

/// Functions that were judged, by name.
pub(super) type Judged<'a> = FxHashMap<&'a str, Waits>;

/// Judges a function whose callees were judged before.
pub(super) fn judge(
    flow: &Flow<'_, '_>,
    intro: &Intro<'_>,
    is_entry: bool,
    judged: &Judged<'_>,
) -> Waits {
    let mut found = Waits::default();
    let body = Body::of(flow, intro, is_entry, judged, &mut found);
    if found.for_lanes || !is_entry {
        body.judge(&mut found);
    }
    found
}

/// Whether a value is the same for all lanes of a warp; as what is known of a launch.
type Level = Ends;

/// What of a body matters here. Nodes are its instructions, and one past the last, which
/// stands for the return of a function.
struct Body<'f, 'm, 'a> {
    flow: &'f Flow<'m, 'a>,
    is_entry: bool,
    /// Where control goes from each node.
    next: Vec<Vec<usize>>,
    /// Threads wait there.
    is_wait: Vec<bool>,
    /// A wait follows, or is there.
    matters: Vec<bool>,
}

impl<'f, 'm, 'a> Body<'f, 'm, 'a> {
    fn of(
        flow: &'f Flow<'m, 'a>,
        intro: &Intro<'_>,
        is_entry: bool,
        judged: &Judged<'_>,
        found: &mut Waits,
    ) -> Self {
        let count = flow.steps.len();
        let mut body = Body {
            flow,
            is_entry,
            next: Vec::with_capacity(count + 1),
            is_wait: vec![false; count + 1],
            matters: Vec::new(),
        };
        let mut active: Option<u32> = None;
        for (at, step) in flow.steps.iter().enumerate() {
            let instruction = step.instruction;
            let mut next = step.next.clone();
            if !is_entry && instruction.opcode.mnemonic() == Mnemonic::Ret {
                next.push(count);
            }
            body.next.push(next);
            if step.has_label {
                active = None;
            }
            let start = instruction.span.start;
            if step.is_lost {
                found.doubt(Ends::Unknown, start);
            }
            match kind_of(flow, at, active, judged) {
                Kind::Plain => {}
                Kind::Block { is_aligned } => {
                    (body.is_wait[at], found.waits) = (true, true);
                    found.for_lanes |= is_aligned;
                }
                Kind::Lanes { of_all } => {
                    body.is_wait[at] = true;
                    (found.waits, found.for_lanes) = (true, true);
                    if !of_all {
                        found.doubt(Ends::Unknown, start);
                    }
                }
                Kind::Call(callee) => {
                    body.is_wait[at] = true;
                    found.waits = true;
                    found.for_lanes |= callee.for_lanes;
                    found.doubt(callee.ends, callee.at.unwrap_or(start));
                }
            }
            active = active_after(flow, at, active);
        }
        for &(from, to) in &intro.sequences {
            // What clears: all threads come to its barrier, or none where the block has
            // no shared memory.
            for at in from..to {
                (body.next[at], body.is_wait[at]) = (vec![at + 1], false);
            }
        }
        body.next.push(Vec::new());
        body.is_wait[count] = !is_entry && found.waits;
        body.matters = body.mattering();
        body
    }

    /// Nodes from which a way leads to a wait.
    fn mattering(&self) -> Vec<bool> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.next.len()];
        for (at, next) in self.next.iter().enumerate() {
            for to in next.iter().filter(|to| **to < self.next.len()) {
                before[*to].push(at);
            }
        }
        let mut matters = self.is_wait.clone();
        let mut left: Vec<usize> = (0..matters.len()).filter(|at| matters[*at]).collect();
        while let Some(at) = left.pop() {
            for from in &before[at] {
                if !std::mem::replace(&mut matters[*from], true) {
                    left.push(*from);
                }
            }
        }
        matters
    }

    /// Where control goes from a node, as far as waits follow.
    fn onward(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let next = self.next[at].iter().copied();
        next.filter(|to| self.matters.get(*to) == Some(&true))
    }

    /// The branches by which threads come to different waits, or differently to the
    /// same: those with several ways on.
    fn branches(&self) -> Vec<usize> {
        let is_one = |at: &usize| !self.is_wait[*at] && self.onward(*at).nth(1).is_some();
        (0..self.flow.steps.len()).filter(is_one).collect()
    }

    fn judge(&self, found: &mut Waits) {
        let branches = self.branches();
        let waits = self.next_waits();
        let Some(parents) = self.meeting_points() else {
            return found.doubt(Ends::Unknown, self.start_of(0));
        };
        let mut values = Values::of(self.flow, self.is_entry);
        // (Each branch is in doubt twice at most, and each time its ways are followed.)
        let edges: usize = self.next.iter().map(Vec::len).sum();
        let mut steps = 64 * (edges + 16);
        let mut seen = vec![Level::Always; self.next.len()];
        loop {
            values.settle(self.flow);
            let mut is_changed = false;
            for &at in &branches {
                let level = values.decides(at);
                if level <= seen[at] {
                    continue;
                }
                (seen[at], is_changed) = (level, true);
                if self.onward(at).any(|to| waits[to] == Next::Several) || !self.is_one(&waits, at)
                {
                    found.doubt(level, self.start_of(at));
                }
                let Some(way) = self.way(at, parents[at], &mut steps) else {
                    return found.doubt(Ends::Unknown, self.start_of(at));
                };
                values.diverge(&way, level);
            }
            if !is_changed {
                break;
            }
        }
        // A wait that some lanes leave out.
        for at in 0..self.flow.steps.len() {
            if self.is_wait[at] && self.flow.steps[at].instruction.guard.is_some() {
                found.doubt(values.decides(at), self.start_of(at));
            }
        }
    }

    /// The instructions on the ways from a branch to where they meet. `None` if that
    /// takes too long.
    fn way(&self, at: usize, meeting: Option<usize>, steps: &mut usize) -> Option<Vec<usize>> {
        let mut seen = FxHashSet::default();
        let mut way = Vec::new();
        let mut stack: Vec<usize> = self.onward(at).collect();
        while let Some(node) = stack.pop() {
            if Some(node) == meeting || !seen.insert(node) {
                continue;
            }
            *steps = steps.checked_sub(1)?;
            if node < self.flow.steps.len() {
                way.push(node);
            }
            if !self.is_wait[node] {
                stack.extend(self.onward(node));
            }
        }
        Some(way)
    }

    fn start_of(&self, at: usize) -> u32 {
        let step = self.flow.steps.get(at);
        step.map_or(0, |step| step.instruction.span.start)
    }

    /// Whether all ways on from a branch lead to one and the same wait.
    fn is_one(&self, waits: &[Next], at: usize) -> bool {
        let mut all = self.onward(at).map(|to| waits[to]);
        let first = all.next();
        all.all(|next| Some(next) == first)
    }

    /// The next wait at or behind each node.
    fn next_waits(&self) -> Vec<Next> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.next.len()];
        for at in 0..self.next.len() {
            for to in self.onward(at) {
                before[to].push(at);
            }
        }
        let mut waits = vec![Next::None; self.next.len()];
        let mut left = Vec::new();
        for at in (0..waits.len()).filter(|at| self.is_wait[*at]) {
            waits[at] = Next::One(at);
            left.push(at);
        }
        while let Some(at) = left.pop() {
            for &from in before[at].iter().filter(|from| !self.is_wait[**from]) {
                let joined = waits[from].join(waits[at]);
                if joined != waits[from] {
                    waits[from] = joined;
                    left.push(from);
                }
            }
        }
        waits
    }

    /// For each node, the first one that is on all ways from it to a wait, if there is
    /// one: where the ways meet again. `None` if that takes too long.
    fn meeting_points(&self) -> Option<Vec<Option<usize>>> {
        // Backwards, from a node that stands for what follows all waits: the number of
        // each is one more than that of its node.
        let mut graph: Vec<Vec<u32>> = vec![Vec::new(); self.next.len() + 1];
        for at in 0..self.next.len() {
            if self.is_wait[at] {
                graph[0].push(at as u32 + 1);
            } else {
                for to in self.onward(at) {
                    graph[to + 1].push(at as u32 + 1);
                }
            }
        }
        let parents = dominance::parents(graph)?;
        let of = |at: usize| (*parents.get(at + 1)?)?.checked_sub(1);
        Some(
            (0..self.next.len())
                .map(|at| of(at).map(|to| to as usize))
                .collect(),
        )
    }
}

/// The next wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    None,
    One(usize),
    Several,
}

impl Next {
    fn join(self, other: Next) -> Next {
        match (self, other) {
            (Next::None, any) | (any, Next::None) => any,
            (Next::One(a), Next::One(b)) if a == b => self,
            _ => Next::Several,
        }
    }
}

/// How threads wait at an instruction.
enum Kind {
    /// They do not, or for no others than those that come together.
    Plain,
    /// For all threads of the block; lanes must come together to one that is aligned.
    Block { is_aligned: bool },
    /// For lanes of the warp: for all of them, or for some.
    Lanes { of_all: bool },
    /// In the function that is called.
    Call(Waits),
}

/// How threads wait at an instruction, where a register holds the lanes that execute
/// it.
fn kind_of(flow: &Flow<'_, '_>, at: usize, active: Option<u32>, judged: &Judged<'_>) -> Kind {
    let instruction = flow.steps[at].instruction;
    if instruction.opcode.mnemonic() == Mnemonic::Call {
        let callee = instruction.called_function();
        return match callee.and_then(|(_, name)| judged.get(name)) {
            Some(callee) if callee.waits => Kind::Call(*callee),
            Some(_) => Kind::Plain,
            // (It is refused.)
            None => Kind::Lanes { of_all: false },
        };
    }
    let Some(info) = ptx::table::classify(instruction) else {
        return Kind::Lanes { of_all: false };
    };
    match info.convergence {
        Convergence::None => Kind::Plain,
        Convergence::Block => {
            let opcode = &instruction.opcode;
            let is_bar = opcode.mnemonic() == Mnemonic::Bar;
            Kind::Block {
                is_aligned: is_bar || opcode.has(Modifier::Aligned),
            }
        }
        Convergence::Warp => Kind::Lanes { of_all: true },
        Convergence::Mask => match instruction.operands.last().map(|mask| &mask.kind) {
            Some(OperandKind::Integer(lanes)) => Kind::Lanes {
                of_all: *lanes as u32 == u32::MAX,
            },
            Some(OperandKind::Name(mask)) => {
                let register = flow.register(at, mask);
                let comes_together = register.is_some() && register == active;
                match comes_together && instruction.guard.is_none() {
                    true => Kind::Plain,
                    false => Kind::Lanes { of_all: false },
                }
            }
            _ => Kind::Lanes { of_all: false },
        },
    }
}

/// The register that holds the lanes which execute what follows an instruction, up to
/// the next label, if it was `active` before.
fn active_after(flow: &Flow<'_, '_>, at: usize, active: Option<u32>) -> Option<u32> {
    let instruction = flow.steps[at].instruction;
    let info = ptx::table::classify(instruction)?;
    let waits = match info.convergence {
        Convergence::None | Convergence::Mask => false,
        Convergence::Warp | Convergence::Block => true,
    };
    let is_of_all = matches!(
        kind_of(flow, at, active, &Judged::default()),
        Kind::Lanes { .. }
    );
    if info.is_control || waits || is_of_all {
        return None;
    }
    let written = may_write(flow, at);
    let is_it = instruction.opcode.mnemonic() == Mnemonic::Activemask;
    match (is_it, instruction.guard, &written[..]) {
        (true, None, [register]) => Some(*register),
        _ => active.filter(|register| !written.contains(register)),
    }
}
