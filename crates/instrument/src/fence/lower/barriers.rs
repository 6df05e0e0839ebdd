//! Barriers of a block become such that threads which wait at them can be ended.
//!
//! A device waits at a barrier in hardware: no instruction asks whether it has
//! opened, and none cancels the wait. One barrier of the whole block opens all the
//! same once threads must end, because threads that have exited count as arrived.
//! So that one stays, and all others are replaced:
//!
//! * **A barrier of the whole block** (`bar.sync a`) becomes barrier 0, whatever its
//!   number. In a program that ends all threads execute such barriers in one order, so
//!   that it makes no difference which is which.
//! * **A reduction of the whole block** (`bar.red.op d, a, p`) becomes a sum in shared
//!   memory, between two such barriers. Where warps of a block are at a barrier with
//!   different operations, an H200 ends the context (`CUDA_ERROR_ILLEGAL_INSTRUCTION`;
//!   PTX ISA: "execution in this case is unpredictable").
//! * **A barrier for a number of threads** (`bar.sync a, b`, `bar.arrive a, b`,
//!   `bar.red.op d, a, b, p`) becomes counters in shared memory, and a loop that
//!   looks whether the thread must end, like all loops.
//!
//! The counters of a barrier are those of [`state`]. The lanes that execute the
//! instruction together have one arrival, of the first of them, for 32 threads: so
//! the device counts (PTX ISA, `barrier`: arrivals are those of warps). Lanes that
//! are not `.aligned` wait for their warp first, as they do in hardware. The arrival
//! that makes the barrier complete takes the counters back, and then publishes
//! generation and result, as one word of 64 bits. A program can write to the
//! counters, and then waits for ever: until it is told to end.

use super::super::refuse::Refusals;
use super::strides;
use crate::patch::put;
use model::layout::fence::{BARRIERS, WARP};
use ptx::{Edits, Instruction, Mnemonic, Modifier, Module, OperandKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// The counters of all barriers, in shared memory.
const COUNTERS: &str = "__ringfence_barriers";
/// Its bytes, and what its address is a multiple of. The program's own variables lie
/// beside it: their addresses, and that of dynamic shared memory, keep their low bits.
const SPACE: i64 = 1024;
/// Begins the names of registers, which are in a scope of their own.
const REGISTER: &str = "%__ringfence_w";
/// Threads of a block, at most.
const THREADS: i64 = 1024;
/// `activemask` came with this version of PTX.
const LEAST_VERSION: (u32, u32) = (6, 2);

/// Offsets of the counters of one barrier.
mod state {
    /// A `u32`: threads that have arrived.
    pub const ARRIVED: i64 = 0;
    /// A `u32`: threads that brought a predicate, times 2^16; and those of which it
    /// held.
    pub const VOTES: i64 = 4;
    /// A `u64`: the votes when it last completed, and how often it has completed, in
    /// the upper half.
    pub const DONE: i64 = 8;
    /// Its upper half.
    pub const GENERATION: i64 = 12;
    /// Bytes of all.
    pub const BYTES: i64 = 16;
}

/// The votes of reductions of the whole block, behind the counters of barriers.
const SUM: i64 = state::BYTES * BARRIERS;

const _: () = assert!(SUM + 4 <= SPACE);

/// What threads do at a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sync,
    Arrive,
    Red(Reduction),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Popc,
    And,
    Or,
}

/// A barrier of a block, in an instruction.
struct Barrier<'i, 'a> {
    instruction: &'i Instruction<'a>,
    kind: Kind,
    id: &'i ptx::Operand<'a>,
    threads: Option<&'i ptx::Operand<'a>>,
    /// The result and the predicate of a reduction.
    reduced: Option<(&'i ptx::Operand<'a>, &'i ptx::Operand<'a>)>,
}

/// Replaces the barriers of a module, if it has any that must be.
pub(super) fn look(module: &Module<'_>, refusals: &mut Refusals<'_>) -> Option<String> {
    let mut edits = Edits::new();
    let mut has_counters = false;
    let mut number = 0;
    for function in module.functions() {
        refusals.enter(Some(function.name));
        let all: Vec<Barrier<'_, '_>> = function.instructions().filter_map(Barrier::of).collect();
        if all.is_empty() {
            continue;
        }
        let constants = strides::constants(function);
        if !are_apart(&all, &constants, refusals) {
            continue;
        }
        for barrier in &all {
            if let Some(reason) = barrier.is_wrong(&constants) {
                refusals.add(barrier.instruction.span, reason);
                continue;
            }
            if barrier.threads.is_none() && barrier.reduced.is_none() {
                if !matches!(barrier.id.kind, OperandKind::Integer(0)) {
                    edits.replace(barrier.id.span, "0");
                }
                continue;
            }
            if module.version < LEAST_VERSION {
                let reason = "a barrier for a number of threads or a reduction, before PTX 6.2";
                refusals.add(barrier.instruction.span, reason);
                continue;
            }
            let text = match barrier.threads {
                Some(threads) => {
                    let place = (module.source, number);
                    barrier.counted(threads, &constants, place, fence_of(module))
                }
                None => barrier.reduction((module.source, number)),
            };
            has_counters = true;
            number += 1;
            let span = barrier.instruction.span;
            let text = super::with_lines(text, span.text(module.source));
            edits.replace(span, text);
        }
    }
    refusals.enter(None);
    if has_counters {
        let text = format!(" .shared .align {SPACE} .b8 {COUNTERS}[{SPACE}];");
        edits.insert(super::end_of_header(module)?, text);
    }
    (!edits.is_empty()).then(|| edits.apply(module.source))
}

/// An instruction that orders what a thread has written before what it writes next, for
/// its block. (That of devices before sm_70 orders more, which takes longer.)
fn fence_of(module: &Module<'_>) -> &'static str {
    let version = module.target.iter().find_map(|word| {
        let digits = word.strip_prefix("sm_")?;
        let end = digits.find(|c: char| !c.is_ascii_digit());
        digits[..end.unwrap_or(digits.len())].parse::<u32>().ok()
    });
    match version.is_some_and(|version| version >= 70) {
        true => "fence.acq_rel.cta",
        false => "membar.cta",
    }
}

/// What an operand is, where the text has it.
fn value(operand: &ptx::Operand<'_>, constants: &Constants<'_>) -> Option<i64> {
    match operand.kind {
        OperandKind::Integer(value) => Some(value),
        OperandKind::Name(name) => constants.get(name).copied().flatten(),
        _ => None,
    }
}

/// Registers that hold a constant.
type Constants<'a> = FxHashMap<&'a str, Option<i64>>;

/// Whether no barrier of a function is one of the whole block and one for a number
/// of threads, which could be the same: the two are no longer.
fn are_apart(
    all: &[Barrier<'_, '_>],
    constants: &Constants<'_>,
    refusals: &mut Refusals<'_>,
) -> bool {
    let whole = all.iter().filter(|barrier| barrier.threads.is_none());
    let whole: FxHashSet<i64> = whole.filter_map(|one| one.number(constants)).collect();
    let mut are = true;
    for barrier in all.iter().filter(|barrier| barrier.threads.is_some()) {
        if barrier
            .number(constants)
            .is_some_and(|id| whole.contains(&id))
        {
            let reason = "a barrier for a number of threads is also one of the whole block";
            refusals.add(barrier.instruction.span, reason);
            are = false;
        }
    }
    are
}

impl<'i, 'a> Barrier<'i, 'a> {
    fn of(instruction: &'i Instruction<'a>) -> Option<Self> {
        let opcode = &instruction.opcode;
        let is_barrier = matches!(opcode.mnemonic(), Mnemonic::Bar | Mnemonic::Barrier)
            && !opcode.has_any(&[Modifier::Warp, Modifier::Cluster]);
        if !is_barrier {
            return None;
        }
        let has = |modifier| opcode.has(modifier);
        let kind = match () {
            () if has(Modifier::Red) && has(Modifier::Popc) => Kind::Red(Reduction::Popc),
            () if has(Modifier::Red) && has(Modifier::And) => Kind::Red(Reduction::And),
            () if has(Modifier::Red) && has(Modifier::Or) => Kind::Red(Reduction::Or),
            () if has(Modifier::Red) => return None,
            () if has(Modifier::Arrive) => Kind::Arrive,
            () => Kind::Sync,
        };
        let (id, threads, reduced) = match (kind, &instruction.operands[..]) {
            (Kind::Red(_), [to, id, from]) => (id, None, Some((to, from))),
            (Kind::Red(_), [to, id, threads, from]) => (id, Some(threads), Some((to, from))),
            (Kind::Sync, [id]) => (id, None, None),
            (Kind::Sync | Kind::Arrive, [id, threads]) => (id, Some(threads), None),
            _ => return None,
        };
        Some(Barrier {
            instruction,
            kind,
            id,
            threads,
            reduced,
        })
    }

    /// Its number, where the text has it.
    fn number(&self, constants: &Constants<'_>) -> Option<i64> {
        value(self.id, constants)
    }

    /// Why a device would not take its constants (PTX ISA, `barrier`).
    fn is_wrong(&self, constants: &Constants<'_>) -> Option<&'static str> {
        let id = self.number(constants);
        if id.is_some_and(|id| !(0..BARRIERS).contains(&id)) {
            return Some("there is no such barrier");
        }
        let threads = self.threads.and_then(|threads| value(threads, constants));
        let is_right = |count: i64| (WARP..=THREADS).contains(&count) && count % WARP == 0;
        threads
            .is_some_and(|count| !is_right(count))
            .then_some("no number of threads in warps")
    }

    /// What takes the place of a barrier for a number of threads.
    fn counted(
        &self,
        operand: &ptx::Operand<'_>,
        constants: &Constants<'_>,
        (source, label): (&str, usize),
        fence: &str,
    ) -> String {
        const W: &str = REGISTER;
        let mut out = self.begins(label);
        let mut add = |text: std::fmt::Arguments<'_>| put(&mut out, format_args!("{text} "));
        let (base, first) = match self.number(constants) {
            Some(id) => (COUNTERS.to_owned(), state::BYTES * id),
            None => {
                let id = self.id.span.text(source);
                add(format_args!("min.u32 {W}x, {id}, {};", BARRIERS - 1));
                add(format_args!("mov.u32 {W}a, {COUNTERS};"));
                let bytes = state::BYTES;
                add(format_args!("mad.lo.s32 {W}a, {W}x, {bytes}, {W}a;"));
                (format!("{W}a"), 0)
            }
        };
        let threads = match value(operand, constants) {
            Some(threads) => threads.to_string(),
            // As the device has them.
            None => {
                let threads = operand.span.text(source);
                add(format_args!("and.b32 {W}c, {threads}, -{WARP};"));
                add(format_args!("max.u32 {W}c, {W}c, {WARP};"));
                add(format_args!("min.u32 {W}c, {W}c, {THREADS};"));
                format!("{W}c")
            }
        };
        let at = |offset: i64| format!("[{base}+{}]", first + offset);
        // What each lane has written is before the arrival of the first.
        add(format_args!("{fence};"));
        out.push_str(&self.together(source));
        let mut add = |text: std::fmt::Arguments<'_>| put(&mut out, format_args!("{text} "));
        add(format_args!("bar.warp.sync {W}m;"));
        let votes = at(state::VOTES);
        if self.reduced.is_some() {
            add(format_args!("@{W}f red.shared.add.u32 {votes}, {W}v;"));
        }
        let (generation, arrived) = (at(state::GENERATION), at(state::ARRIVED));
        add(format_args!("mov.u32 {W}g, 0;"));
        add(format_args!(
            "@{W}f ld.volatile.shared.u32 {W}g, {generation};"
        ));
        add(format_args!("{fence}; mov.u32 {W}n, 0;"));
        add(format_args!(
            "@{W}f atom.shared.add.u32 {W}n, {arrived}, {WARP};"
        ));
        add(format_args!("{fence}; add.s32 {W}n, {W}n, {WARP};"));
        add(format_args!("setp.ge.and.u32 {W}l, {W}n, {threads}, {W}f;"));
        add(format_args!("mov.u32 {W}r, 0;"));
        if self.reduced.is_some() {
            add(format_args!("@{W}l atom.shared.exch.b32 {W}r, {votes}, 0;"));
        }
        let done = at(state::DONE);
        add(format_args!("@{W}l st.volatile.shared.u32 {arrived}, 0;"));
        add(format_args!("add.s32 {W}t, {W}g, 1;"));
        add(format_args!("mov.b64 {W}d, {{{W}r, {W}t}}; {fence};"));
        add(format_args!("@{W}l st.volatile.shared.u64 {done}, {W}d;"));
        if self.kind != Kind::Arrive {
            // All wait for the generation that the first of them has seen.
            add(format_args!("brev.b32 {W}x, {W}m; clz.b32 {W}x, {W}x;"));
            add(format_args!(
                "shfl.sync.idx.b32 {W}g, {W}g, {W}x, 31, {W}m;"
            ));
            add(format_args!("$__ringfence_wait{label}:"));
            add(format_args!("ld.volatile.shared.u64 {W}d, {done};"));
            add(format_args!("mov.b64 {{{W}r, {W}t}}, {W}d;"));
            add(format_args!("setp.eq.s32 {W}s, {W}t, {W}g;"));
            add(format_args!("@{W}s bra $__ringfence_wait{label}; {fence};"));
        }
        self.ends(source, label, &mut out);
        out
    }

    /// What takes the place of a reduction of the whole block. Each warp adds to a sum,
    /// and subtracts what it added when all have read it: before it comes to the next
    /// barrier.
    fn reduction(&self, (source, label): (&str, usize)) -> String {
        const W: &str = REGISTER;
        let mut out = self.begins(label);
        out.push_str(&self.together(source));
        let barrier = match self.is_aligned() {
            true => "bar.sync 0;",
            false => "barrier.sync 0;",
        };
        put(
            &mut out,
            format_args!(
                "@{W}f red.shared.add.u32 [{COUNTERS}+{SUM}], {W}v; {barrier} \
                 ld.volatile.shared.u32 {W}r, [{COUNTERS}+{SUM}]; {barrier} \
                 neg.s32 {W}v, {W}v; @{W}f red.shared.add.u32 [{COUNTERS}+{SUM}], {W}v; "
            ),
        );
        self.ends(source, label, &mut out);
        out
    }

    fn is_aligned(&self) -> bool {
        let opcode = &self.instruction.opcode;
        opcode.mnemonic() == Mnemonic::Bar || opcode.has(Modifier::Aligned)
    }

    /// Goes past all of it where the guard does not hold, and declares registers.
    fn begins(&self, label: usize) -> String {
        const W: &str = REGISTER;
        let mut out = String::new();
        if let Some(guard) = self.instruction.guard {
            let not = if guard.negated { "" } else { "!" };
            put(
                &mut out,
                format_args!("@{not}{} bra $__ringfence_past{label}; ", guard.register),
            );
        }
        put(
            &mut out,
            format_args!(
                "{{ .reg .pred {W}f, {W}l, {W}s; .reg .b64 {W}d; \
                 .reg .b32 {W}a, {W}c, {W}m, {W}x, {W}g, {W}n, {W}r, {W}t, {W}v; "
            ),
        );
        if !self.is_aligned() && self.threads.is_some() {
            out.push_str("bar.warp.sync 0xffffffff; ");
        }
        out
    }

    /// The lanes that execute it together, whether a lane is the first of them, and how
    /// they vote.
    fn together(&self, source: &str) -> String {
        const W: &str = REGISTER;
        let mut out = format!(
            "activemask.b32 {W}m; mov.u32 {W}x, %lanemask_lt; and.b32 {W}x, {W}x, {W}m; \
             setp.eq.s32 {W}f, {W}x, 0; "
        );
        if let Some((_, from)) = self.reduced {
            let from = from.span.text(source);
            put(
                &mut out,
                format_args!(
                    "vote.sync.ballot.b32 {W}v, {from}, {W}m; popc.b32 {W}v, {W}v; \
                     popc.b32 {W}x, {W}m; shl.b32 {W}x, {W}x, 16; add.s32 {W}v, {W}v, {W}x; "
                ),
            );
        }
        out
    }

    /// The result of a reduction, and where those come that went past.
    fn ends(&self, source: &str, label: usize, out: &mut String) {
        const W: &str = REGISTER;
        if let (Kind::Red(reduction), Some((to, _))) = (self.kind, self.reduced) {
            let to = to.span.text(source);
            let result = match reduction {
                Reduction::Popc => format!("mov.u32 {to}, {W}t;"),
                Reduction::And => format!("setp.eq.s32 {to}, {W}t, {W}r;"),
                Reduction::Or => format!("setp.ne.s32 {to}, {W}t, 0;"),
            };
            put(
                out,
                format_args!("and.b32 {W}t, {W}r, 0xffff; shr.u32 {W}r, {W}r, 16; {result} "),
            );
        }
        out.push('}');
        if self.instruction.guard.is_some() {
            put(out, format_args!(" $__ringfence_past{label}:"));
        }
    }
}
