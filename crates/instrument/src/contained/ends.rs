//! Kernels end: once the host has set the word of `model::layout::fence::stop`,
//! each thread executes at most `stop::STEPS` further instructions.
//!
//! **Argument.** A *look* loads the word and retires the thread where it is set;
//! the address of the word comes from the table, and nothing else writes its
//! register. A *counted look* does so at each pass of 2^k, by a counter that
//! starts at zero, that only looks change, and that each of them increments by
//! one: of any 2^k counted looks that an activation of a function passes, one
//! loads the word. So with the looks taken out,
//!
//! * each rest of a body's control-flow graph must have no cycle. Its longest
//!   path has L instructions, where a call counts as the steps of its callee.
//!   An activation passes at most 2^k counted looks, with at most L steps before,
//!   between and after them: (2^k + 1) (L + a look) steps.
//! * A *strip* is a loop that does not look, and has K passes at most. A limit sets a
//!   counter to K; then comes the loop, which only the limit leads into, and only at its
//!   first instruction; at its last, the counter is decremented, and the loop goes back
//!   at most where it is not zero. Nothing between writes the counter, or looks. Or its
//!   passes are counted before it begins (`counted`). It is taken for a piece of code of
//!   K times its instructions, without the branch back.
//! * Calls lead to no function that is called already (`function`), so these
//!   bounds add up from the leaves. A callee that looks where it begins does not
//!   return: the path ends there. That bounds trees of calls, too.
//! * A grid may have 2^63 blocks. Each block of one that has more than
//!   `stop::GRID_STEPS` divided by the steps of a thread looks where it begins: the answer
//!   says of each kernel from how many blocks on the host must have the table say so.
//!   How long a device takes to begin and end so many blocks is the host's
//!   business, which bounds grids.
//!
//! A thread may *wait* for others in hardware: at barriers of the block, and in
//! instructions for several lanes (`.sync`). `waits` is about these.
//! `nanosleep` (at most 2 ms) and `mbarrier.try_wait` (its limit) are followed
//! by a look, so that a thread waits in one of them at most.

use super::Errors;
use super::counted;
use super::flow::Flow;
use super::idiom::{self, Idiom};
use super::intro::{Intro, names};
use model::layout::fence::stop;
use ptx::{Function, Mnemonic, Modifier, OperandKind};
use rustc_hash::FxHashMap;

/// Steps of a look, at most.
const LOOK: u64 = 8;
/// Steps in which a thread clears shared memory, at most: 256 KiB by 16 bytes.
const CLEARING: u64 = 5 * (1 << 14);

/// What is known of functions that were judged.
#[derive(Default)]
pub(super) struct Bounds<'a> {
    /// Steps of one activation, with all that it calls.
    steps: FxHashMap<&'a str, u64>,
    /// Those that look where they begin: steps up to there.
    looks: FxHashMap<&'a str, u64>,
    /// Kernels that look only if grids may be large: from how many blocks on they must.
    pub(super) grids: Vec<(&'a str, u64)>,
}

impl<'a> Bounds<'a> {
    /// Judges a function whose callees were judged before.
    pub(super) fn judge(
        &mut self,
        function: &Function<'a>,
        (flow, intro): (&Flow<'_, 'a>, &Intro<'a>),
        source: &str,
        errors: &mut Errors<'_>,
    ) {
        prepared(function, flow, intro, source, errors);
        waits(flow, source, errors);
        let mut graph = Graph::of(flow, intro, source);
        let Some(longest) = graph.longest(self) else {
            let at = graph.cycle.map_or(function.name_span, |index| {
                flow.steps[index].instruction.span
            });
            errors.at(at, "a loop that does not look whether it must end");
            return;
        };
        let head = intro.end as u64 + intro.cleared_steps;
        let head = head + if intro.clears { CLEARING } else { 0 };
        let between = longest.saturating_add(LOOK);
        let steps = between
            .saturating_mul(graph.passes + 1)
            .saturating_add(head);
        if steps > stop::STEPS {
            let message = format!("it may take {steps} steps before it looks whether it must end");
            errors.at(function.name_span, message);
        }
        if function.is_entry {
            let least = (stop::GRID_STEPS / steps.max(1)).max(1);
            match (intro.looks, intro.looks_if_large) {
                (true, _) => {}
                (false, true) => self.grids.push((function.name, least)),
                (false, false) => {
                    let message = "large grids do not look whether they must end";
                    errors.at(function.name_span, message);
                }
            }
        }
        if intro.looks {
            self.looks.insert(function.name, head);
        }
        self.steps.insert(function.name, steps);
    }

    /// Steps of an instruction, and whether a thread goes on behind it once the
    /// word is set.
    fn of(&self, instruction: &ptx::Instruction<'_>) -> (u64, bool) {
        if instruction.opcode.mnemonic() != Mnemonic::Call {
            return (1, true);
        }
        let Some((_, callee)) = instruction.called_function() else {
            return (u64::MAX, true);
        };
        if let Some(head) = self.looks.get(callee) {
            return (head.saturating_add(LOOK), instruction.guard.is_some());
        }
        // (What is not known is refused as a callee.)
        (
            self.steps
                .get(callee)
                .map_or(1, |steps| steps.saturating_add(1)),
            true,
        )
    }
}

/// The register of the word's address and the counter are what looks take them
/// for: written in the head, and by looks.
fn prepared(
    function: &Function<'_>,
    flow: &Flow<'_, '_>,
    intro: &Intro<'_>,
    source: &str,
    errors: &mut Errors<'_>,
) {
    let (mut stops, mut starts) = (0, 0);
    for (index, step) in flow.steps.iter().enumerate() {
        let instruction = step.instruction;
        let text: Vec<&str> = instruction.span.text(source).split_whitespace().collect();
        let text = text.join(" ");
        let in_head = index < intro.end;
        if mentions_written(flow, index, idiom::TAKE_STOP) {
            stops += 1;
            if !in_head || text != idiom::take_stop() {
                errors.at(
                    instruction.span,
                    "the address of the word that ends kernels is changed",
                );
            }
        }
        let counts = || matches!(idiom::at(flow, index, source), Some((Idiom::Counted(_), _)));
        if mentions_written(flow, index, idiom::PASSES) && !counts() {
            starts += 1;
            if !in_head || text != idiom::START {
                errors.at(instruction.span, "the counter of looks is changed");
            }
        }
        if step.next.iter().any(|next| *next < intro.end) && index >= intro.end {
            errors.at(instruction.span, "a branch into the head of the body");
        }
    }
    if stops != 1 || starts > 1 {
        errors.at(
            function.name_span,
            "it does not load where the word is that ends kernels, once",
        );
    }
}

/// Whether an instruction may write a register, guarded or not.
pub(super) fn mentions_written(flow: &Flow<'_, '_>, index: usize, name: &str) -> bool {
    let instruction = flow.steps[index].instruction;
    let info = ptx::table::classify(instruction);
    let is_call = instruction.opcode.mnemonic() == Mnemonic::Call;
    instruction
        .operands
        .iter()
        .enumerate()
        .any(|(number, operand)| {
            use ptx::table::Role;
            let role = info
                .as_ref()
                .and_then(|info| info.roles.get(number).copied());
            let is_read = matches!(role, Some(Role::Source | Role::Address | Role::Target));
            let mut found = false;
            operand.names(&mut |mentioned| found |= mentioned == name);
            found && (!is_read || is_call) && !matches!(operand.kind, OperandKind::Address(_))
        })
}

/// Each instruction that sleeps for a while is followed by a look.
fn waits(flow: &Flow<'_, '_>, source: &str, errors: &mut Errors<'_>) {
    for (index, step) in flow.steps.iter().enumerate() {
        let instruction = step.instruction;
        let opcode = &instruction.opcode;
        let is_try = opcode.has(Modifier::TryWait);
        if opcode.mnemonic() != Mnemonic::Nanosleep && !is_try {
            continue;
        }
        let is_looked_at = match idiom::at(flow, index + 1, source) {
            Some((Idiom::Look, _)) => true,
            Some((Idiom::LookUnless(done), _)) => {
                let is_done = |operand: &ptx::Operand<'_>| names(&operand.kind, done);
                // (Under a guard that does not hold, it did not wait.)
                is_try && instruction.operands.first().is_some_and(is_done)
            }
            _ => false,
        };
        if !is_looked_at {
            errors.at(
                instruction.span,
                "a thread that slept does not look whether it must end",
            );
        }
    }
}

/// What is left of a body without its head and its looks.
struct Graph<'f, 'm, 'a> {
    flow: &'f Flow<'m, 'a>,
    first: usize,
    /// Part of a look, by instruction.
    is_look: Vec<bool>,
    /// Strips by their first instruction: one past the last, and their passes.
    strips: FxHashMap<usize, (usize, u64)>,
    /// Passes between two loads of the word; 0 if no look counts.
    passes: u64,
    /// An instruction on a cycle.
    cycle: Option<usize>,
}

impl<'f, 'm, 'a> Graph<'f, 'm, 'a> {
    fn of(flow: &'f Flow<'m, 'a>, intro: &Intro<'_>, source: &str) -> Self {
        let mut is_look = vec![false; flow.steps.len()];
        let mut passes = 0;
        let mut limits = FxHashMap::default();
        let mut backs = Vec::new();
        let mut at = intro.end;
        while at < flow.steps.len() {
            let length = match idiom::at(flow, at, source) {
                Some((Idiom::Look, length)) => length,
                Some((Idiom::Counted(count), length)) => {
                    passes = passes.max(count);
                    length
                }
                Some((Idiom::Limit(most), length)) => {
                    limits.insert(at + length, most);
                    0
                }
                Some((Idiom::Again(first), length)) => {
                    backs.push((first, at + length));
                    0
                }
                _ => 0,
            };
            is_look[at..at + length].fill(true);
            at += length.max(1);
        }
        let mut graph = Graph {
            flow,
            first: intro.end,
            is_look,
            strips: FxHashMap::default(),
            passes,
            cycle: None,
        };
        for (first, end) in backs {
            if let Some(most) = limits.get(&first)
                && graph.is_strip(first, end)
            {
                graph.strips.insert(first, (end, *most));
            }
        }
        graph.counted(source);
        graph
    }

    /// Finds loops whose passes are counted before they begin.
    fn counted(&mut self, source: &str) {
        for found in counted::loops(self.flow, self.first, source) {
            let counted::Counted {
                first, end, passes, ..
            } = found;
            if !self.is_look[first..end].contains(&true) {
                self.strips.entry(first).or_insert((end, passes));
            }
        }
    }

    /// Whether the instructions from a limit to the branch back are a strip: only
    /// that branch and the limit lead to the first of them, and nothing from outside
    /// to any other; none of them looks, or writes the counter.
    fn is_strip(&self, first: usize, end: usize) -> bool {
        // The decrement, the comparison, and the branch.
        let Some(decrement) = end.checked_sub(3).filter(|at| *at >= first) else {
            return false;
        };
        let is_quiet = |at: usize| {
            !self.is_look[at] && (at == decrement || !mentions_written(self.flow, at, idiom::REST))
        };
        let mut steps = self.flow.steps.iter().enumerate();
        (first..end).all(is_quiet)
            && steps.all(|(at, step)| {
                let is_inside = (first..end).contains(&at);
                let leads_in = |to: &usize| match is_inside {
                    true => *to == first && at + 1 != end,
                    false => (first..end).contains(to) && (*to, at + 1) != (first, first),
                };
                !step.is_lost && !step.next.iter().any(leads_in)
            })
    }

    /// Steps of all passes of a strip but the last.
    fn passes_before_last(&self, first: usize, bounds: &Bounds<'_>) -> u64 {
        let Some((end, most)) = self.strips.get(&first) else {
            return 0;
        };
        let steps = self.flow.steps[first..*end].iter();
        let pass = steps.fold(0u64, |sum, step| {
            sum.saturating_add(bounds.of(step.instruction).0)
        });
        pass.saturating_mul(most.saturating_sub(1))
    }

    /// Whether control goes from an instruction to another one by the branch back
    /// of a strip.
    fn is_back(&self, at: usize, to: usize) -> bool {
        self.strips.get(&to).is_some_and(|(end, _)| at + 1 == *end)
    }

    /// The most steps between two looks; `None` if there is a cycle.
    fn longest(&mut self, bounds: &Bounds<'_>) -> Option<u64> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let count = self.flow.steps.len();
        let mut state = vec![State::New; count];
        let mut longest = vec![0u64; count];
        // What is behind a look begins a path of its own; what nothing leads to
        // is never executed.
        let mut roots = vec![self.first];
        while let Some(root) = roots.pop() {
            let mut stack = vec![(root, 0)];
            while let Some((at, number)) = stack.pop() {
                if at >= count || (number == 0 && state[at] == State::Done) {
                    continue;
                }
                if number == 0 && state[at] == State::Open {
                    self.cycle = Some(at);
                    return None;
                }
                if self.is_look[at] {
                    state[at] = State::Done;
                    roots.extend(self.flow.steps[at].next.iter().copied());
                    continue;
                }
                state[at] = State::Open;
                let (own, goes_on) = bounds.of(self.flow.steps[at].instruction);
                let own = own.saturating_add(self.passes_before_last(at, bounds));
                let next = &self.flow.steps[at].next;
                match next.get(number) {
                    Some(&to) => {
                        stack.push((at, number + 1));
                        if !self.is_back(at, to) {
                            stack.push((to, 0));
                        }
                    }
                    None => {
                        let after = next.iter().filter(|to| goes_on && **to < count);
                        let after = after.filter(|to| !self.is_back(at, **to));
                        let after = after.map(|to| longest[*to]).max();
                        longest[at] = after.unwrap_or(0).saturating_add(own);
                        state[at] = State::Done;
                    }
                }
            }
        }
        Some(longest.into_iter().max().unwrap_or(0))
    }
}
