//! Sequences of instructions that are accepted letter by letter: looks at the
//! word that ends kernels, and what clears memory before its first use.
//!
//! Registers of these sequences begin with `%__rf_`. A body cannot declare such
//! a register in a scope, or twice, so the same name is the same register.

use super::flow::Flow;
use model::layout::fence::{IS_LARGE, RESERVED_SHARED, STOP, VARIABLE, stop};
use ptx::{Instruction, Mnemonic, OperandKind};

/// The most passes of a counted look between two that load the word.
pub(super) const MOST_PASSES: u64 = 1024;

/// What was found at a place.
pub(super) enum Idiom<'a> {
    /// A look at each pass.
    Look,
    /// A look where a predicate does not hold: the name of its register.
    LookUnless(&'a str),
    /// A look at each pass of so many.
    Counted(u64),
    /// Where threads retire, out of line.
    Retired,
    /// The passes of a strip are so many at most.
    Limit(u64),
    /// Goes back to this instruction, where they are not over.
    Again(usize),
    /// The head of a kernel: a look where grids may be large; and whether it clears
    /// shared memory.
    Entry { clears: bool },
    /// A loop that clears a variable in local memory, so many bytes of it.
    Frame { name: &'a str, bytes: u64 },
}

/// Which sequence begins at an instruction, and how many instructions it has.
/// No label is inside, but for those that belong to it.
pub(super) fn at<'a>(
    flow: &Flow<'_, 'a>,
    index: usize,
    source: &str,
) -> Option<(Idiom<'a>, usize)> {
    let reader = Reader {
        flow,
        source,
        index,
    };
    let (idiom, length) = reader
        .look()
        .or_else(|| reader.counted())
        .or_else(|| reader.retired())
        .or_else(|| reader.limit())
        .or_else(|| reader.again())
        .or_else(|| reader.entry())
        .or_else(|| reader.frame())?;
    reader.is_closed(&idiom, length).then_some((idiom, length))
}

struct Reader<'f, 'm, 'a, 's> {
    flow: &'f Flow<'m, 'a>,
    source: &'s str,
    index: usize,
}

impl<'a> Reader<'_, '_, 'a, '_> {
    fn instruction(&self, at: usize) -> Option<&Instruction<'a>> {
        self.flow
            .steps
            .get(self.index + at)
            .map(|step| step.instruction)
    }

    fn is(&self, at: usize, expected: &str) -> bool {
        text(self.flow, self.index + at, self.source) == expected
    }

    fn are<T: AsRef<str>>(&self, from: usize, expected: &[T]) -> bool {
        let mut lines = expected.iter().enumerate();
        lines.all(|(number, line)| self.is(from + number, line.as_ref()))
    }

    /// The integer that is the last operand of an instruction.
    fn last_integer(&self, at: usize) -> Option<i64> {
        match self.instruction(at)?.operands.last()?.kind {
            OperandKind::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// Loads the word under a guard, which is text with a blank or nothing, and
    /// retires the thread where it is set.
    fn loads(&self, from: usize, guard: &str) -> bool {
        let load = format!("{guard}ld.volatile.global.u32 %__rf_word, [%__rf_stop];");
        let lines = [load, HALT.to_owned()];
        self.are(from, &lines) && self.retires(from + 2)
    }

    /// Whether it goes to where threads retire, if they must end.
    fn retires(&self, at: usize) -> bool {
        let step = self.flow.steps.get(self.index + at);
        step.is_some_and(|step| step.retires)
    }

    fn look(&self) -> Option<(Idiom<'a>, usize)> {
        let guard = self.instruction(0)?.guard;
        match guard {
            None => self.loads(0, "").then_some((Idiom::Look, LOOK)),
            Some(guard) if guard.negated => {
                let text = format!("@!{} ", guard.register);
                let found = self.loads(0, &text);
                found.then_some((Idiom::LookUnless(guard.register), LOOK))
            }
            Some(_) => None,
        }
    }

    fn counted(&self) -> Option<(Idiom<'a>, usize)> {
        let passes = u64::try_from(self.last_integer(1)?.checked_add(1)?).ok()?;
        if !passes.is_power_of_two() || passes > MOST_PASSES {
            return None;
        }
        let lines = [
            PASS.to_owned(),
            format!("and.b32 %__rf_phase, %__rf_passes, {};", passes - 1),
            "setp.eq.s32 %__rf_due, %__rf_phase, 0;".to_owned(),
        ];
        let is_so = self.are(0, &lines) && self.loads(3, "@%__rf_due ");
        is_so.then_some((Idiom::Counted(passes), 3 + LOOK))
    }

    fn retired(&self) -> Option<(Idiom<'a>, usize)> {
        self.are(0, &retired()).then_some((Idiom::Retired, 2))
    }

    fn limit(&self) -> Option<(Idiom<'a>, usize)> {
        let most = u64::try_from(self.last_integer(0)?).ok()?;
        let is_so = (1..=u64::from(u32::MAX)).contains(&most)
            && self.is(0, &format!("mov.u32 %__rf_rest, {most};"));
        is_so.then_some((Idiom::Limit(most), 1))
    }

    fn again(&self) -> Option<(Idiom<'a>, usize)> {
        let label = match self.instruction(2)?.operands.first()?.kind {
            OperandKind::Name(label) => label,
            _ => return None,
        };
        // (What else must hold, for it to go back, is the program's.)
        let also = self.instruction(1)?.operands.last()?.span.text(self.source);
        let lines = [
            "add.s32 %__rf_rest, %__rf_rest, -1;".to_owned(),
            format!("setp.ne.and.s32 %__rf_more, %__rf_rest, 0, {also};"),
            format!("@%__rf_more bra {label};"),
        ];
        let behind = self.index + 3;
        let next = &self.flow.steps.get(behind - 1)?.next;
        let back = next.iter().find(|to| **to != behind)?;
        let is_so = next.len() == 2 && self.are(0, &lines);
        is_so.then_some((Idiom::Again(*back), 3))
    }

    fn entry(&self) -> Option<(Idiom<'a>, usize)> {
        let large = format!("ld.const.b32 %__rf_c0, [{VARIABLE}+{IS_LARGE}];");
        let middle = 1 + LARGE.len();
        if !self.is(0, &large) || !self.are(1, LARGE) {
            return None;
        }
        let clearing = clearing();
        let clears = self.are(middle, &clearing);
        let end = middle + if clears { clearing.len() } else { 0 };
        let is_whole = self.retires(end);
        is_whole.then_some((Idiom::Entry { clears }, end + 1))
    }

    fn frame(&self) -> Option<(Idiom<'a>, usize)> {
        let first = self.instruction(0)?;
        let name = match &first.operands[..] {
            [_, name] => match name.kind {
                OperandKind::Name(name) => name,
                _ => return None,
            },
            _ => return None,
        };
        let count = u32::try_from(self.last_integer(1)?).ok()?;
        let width = self.last_integer(3)?;
        let label = match self.instruction(6)?.operands.first()?.kind {
            OperandKind::Name(label) => label,
            _ => return None,
        };
        let width = u32::try_from(width)
            .ok()
            .filter(|w| matches!(w, 1 | 2 | 4 | 8))?;
        // All that is stored lies in the variable.
        let bytes = u64::from(count) * u64::from(width);
        let (size, alignment) = *self.flow.locals.get(name)?;
        if count == 0 || bytes > size || alignment < width {
            return None;
        }
        let lines = [
            format!("mov.u64 %__rf_at, {name};"),
            format!("mov.u32 %__rf_left, {count};"),
            format!("st.local.b{} [%__rf_at], 0;", 8 * width),
            format!("add.s64 %__rf_at, %__rf_at, {width};"),
            "add.s32 %__rf_left, %__rf_left, -1;".to_owned(),
            "setp.ne.s32 %__rf_due, %__rf_left, 0;".to_owned(),
            format!("@%__rf_due bra {label};"),
        ];
        let is_loop = self.flow.steps[self.index + 6].next == [self.index + 2, self.index + 7];
        (self.are(0, &lines) && is_loop).then_some((Idiom::Frame { name, bytes }, 7))
    }

    /// No label of the program is inside, and branches inside go where the
    /// sequence has them.
    fn is_closed(&self, idiom: &Idiom<'_>, length: usize) -> bool {
        let labelled = |at: &usize| self.flow.steps[self.index + at].has_label;
        let found: Vec<usize> = (1..length).filter(labelled).collect();
        let goes = |from: usize, to: usize| {
            let next = &self.flow.steps[self.index + from].next;
            next.contains(&(self.index + to)) && next.len() <= 2
        };
        match idiom {
            Idiom::Frame { .. } => found == [2],
            Idiom::Entry { clears: true } => {
                let start = 1 + LARGE.len();
                let (test, again, join) = (start + 19, start + 23, start + 24);
                found == [test, join, join + 1]
                    && goes(start + 2, join + 1)
                    && goes(start + 5, join)
                    && goes(test + 1, join)
                    && goes(again, test)
            }
            _ => found.is_empty(),
        }
    }
}

/// The register [`Flow`] knows as the address of the words; written once.
pub(super) const TAKE_STOP: &str = "%__rf_stop";
/// What the only instruction that writes it is.
pub(super) fn take_stop() -> String {
    format!("ld.const.b64 %__rf_stop, [{VARIABLE}+{STOP}];")
}
/// The counter of counted looks.
pub(super) const PASSES: &str = "%__rf_passes";
/// The instruction that sets it, at the head of a body.
pub(super) const START: &str = "mov.u32 %__rf_passes, 0;";
/// The counter of the passes of a strip.
pub(super) const REST: &str = "%__rf_rest";
/// The instruction that changes it, in counted looks.
const PASS: &str = "add.s32 %__rf_passes, %__rf_passes, 1;";

const HALT: &str = "setp.ne.s32 %__rf_halt, %__rf_word, 0;";

/// Instructions of a look.
const LOOK: usize = 3;

/// Where threads retire: it counts them.
fn retired() -> [String; 2] {
    [
        format!("red.global.add.u64 [%__rf_stop+{}], 1;", stop::RETIRED),
        "exit;".to_owned(),
    ]
}

/// The text of an instruction with one blank for each gap; empty if there is none.
pub(super) fn text(flow: &Flow<'_, '_>, index: usize, source: &str) -> String {
    let step = flow.steps.get(index);
    let text = step.map_or("", |step| step.instruction.span.text(source));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether an instruction is a branch of threads that must end, and goes to where they
/// retire.
pub(super) fn retires(flow: &Flow<'_, '_>, index: usize, source: &str) -> bool {
    let step = &flow.steps[index];
    let is_halt = |guard: ptx::Guard<'_>| guard.register == "%__rf_halt" && !guard.negated;
    if step.instruction.opcode.mnemonic() != Mnemonic::Bra
        || !step.instruction.guard.is_some_and(is_halt)
    {
        return false;
    }
    let [count, exit] = retired();
    let mut others = step.next.iter().filter(|to| **to != index + 1);
    let is_there =
        |to: &usize| text(flow, *to, source) == count && text(flow, to + 1, source) == exit;
    step.next.len() == 2 && others.all(is_there)
}

/// Looks where grids may be large.
const LARGE: &[&str] = &[
    "setp.ne.s32 %__rf_due, %__rf_c0, 0;",
    "mov.u32 %__rf_word, 0;",
    "@%__rf_due ld.volatile.global.u32 %__rf_word, [%__rf_stop];",
    HALT,
];

/// Clears the shared memory of the block: each thread stores 16 bytes at a time,
/// from 16 times its number on. All threads meet at the end, and go on or retire
/// together; so none goes on where another one has left bytes out.
fn clearing() -> Vec<String> {
    let reserved = format!("ld.const.b32 %__rf_c6, [{VARIABLE}+{RESERVED_SHARED}];");
    let lines = [
        "mov.u32 %__rf_c7, %total_smem_size;",
        "setp.eq.s32 %__rf_due, %__rf_c7, 0;",
        "@%__rf_due bra $__rf_alone;",
        &reserved,
        "add.s32 %__rf_c7, %__rf_c7, %__rf_c6;",
        "@%__rf_halt bra $__rf_cleared;",
        "mov.u32 %__rf_c0, %tid.x;",
        "mov.u32 %__rf_c1, %tid.y;",
        "mov.u32 %__rf_c2, %tid.z;",
        "mov.u32 %__rf_c3, %ntid.x;",
        "mov.u32 %__rf_c4, %ntid.y;",
        "mov.u32 %__rf_c5, %ntid.z;",
        "mad.lo.s32 %__rf_c1, %__rf_c2, %__rf_c4, %__rf_c1;",
        "mad.lo.s32 %__rf_c0, %__rf_c1, %__rf_c3, %__rf_c0;",
        "mad.lo.s32 %__rf_c6, %__rf_c0, 16, %__rf_c6;",
        "mul.lo.s32 %__rf_c3, %__rf_c3, %__rf_c4;",
        "mul.lo.s32 %__rf_c3, %__rf_c3, %__rf_c5;",
        "mul.lo.s32 %__rf_c3, %__rf_c3, 16;",
        "mov.u32 %__rf_c0, 0;",
        "setp.ge.u32 %__rf_due, %__rf_c6, %__rf_c7;",
        "@%__rf_due bra $__rf_cleared;",
        "st.shared.v4.b32 [%__rf_c6], {%__rf_c0, %__rf_c0, %__rf_c0, %__rf_c0};",
        "add.s32 %__rf_c6, %__rf_c6, %__rf_c3;",
        "bra $__rf_clear;",
        "bar.red.or.pred %__rf_halt, 0, %__rf_halt;",
    ];
    lines.map(str::to_owned).to_vec()
}
