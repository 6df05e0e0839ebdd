//! Loops whose passes are counted ahead, so that they need no look.
//!
//! Looks between passes keep ptxas from unrolling a loop, and so from having the loads of
//! several passes under way at a time; what they need in registers costs more than they
//! do. Where a loop of one block goes around for as long as one register, which a value
//! that does not change is added to, has not come to a bound that does not change, a few
//! instructions before the loop tell whether it has many passes left. If not, the loop is
//! the program's own. If so, its *far copy* runs, out of line: it looks, and makes a
//! number of passes, each of which counts.
//!
//! ```text
//!                         L: setp far, passes left, most
//!                            @far bra F
//! L: body                 N: body
//!    i += step               i += step
//!    setp p, i, bound        setp p, i, bound
//!    @p bra L                @p bra N
//!                         O: ...
//!
//!                         F: look; rest = most
//!                         S: body; i += step; setp p, i, bound
//!                            rest -= 1
//!                            if (rest != 0 && p) bra S
//!                            @p bra L
//!                            bra O
//! ```
//!
//! What is compared may also be the register plus a value that does not change.
//!
//! How many passes are left, if the loop goes on while `i < bound`: with the distance
//! `d = bound - i`, from 1 to 2^w in w bits, the first multiple of the step that is at
//! least `d` leads to one of the `step` values from the bound on. These do not continue
//! the loop, unless they wrap around: so it has `d / step` passes, rounded up, as long as
//! `bound + step` is representable. A loop that goes on while `i != bound` has `d / step`
//! if the step divides the distance. The verifier proves this of the text on its own
//! (`contained::counted`).

use super::moving::Moving;
use crate::patch::{line, put};
use analysis::{BlockId, Cfg, Code};
use ptx::table::Convergence;
use ptx::{Guard, Instruction, Mnemonic, Modifier, OperandKind, Type};

/// A loop whose passes are counted ahead.
#[derive(Clone, Debug)]
pub(super) struct Near {
    /// Its branch back.
    pub(super) branch: usize,
    /// The most passes of the loop, and of one turn of its far copy: a power of two.
    pub(super) passes: u64,
    /// Pointers that move through it.
    pub(super) moving: Moving,
    /// Where the branch goes, and under which guard: text.
    label: String,
    guard: String,
    counter: Counter,
}

/// The register by which passes are counted.
#[derive(Clone, Debug)]
struct Counter {
    name: String,
    step: Step,
    /// What is added to it before it is compared: a register, or a constant.
    plus: Option<String>,
    /// What it is compared with: a register, or a constant.
    bound: String,
    compared: Compared,
}

/// The instructions of a loop: a block, and its branch back.
pub(super) struct Body<'c, 'm, 'a> {
    code: &'c Code<'m, 'a>,
    pub(super) first: usize,
    pub(super) branch: usize,
}

impl<'m, 'a> Body<'_, 'm, 'a> {
    pub(super) fn instruction(&self, at: usize) -> &'m Instruction<'a> {
        self.code.instructions[at].instruction
    }

    /// All but the branch.
    pub(super) fn indices(&self) -> std::ops::Range<usize> {
        self.first..self.branch
    }

    /// The only instruction that writes a register, and where it is.
    pub(super) fn only(&self, register: &str) -> Option<(usize, &'m Instruction<'a>)> {
        let mut all = self
            .indices()
            .filter(|at| writes(self.instruction(*at), register));
        let at = all.next().filter(|_| all.next().is_none())?;
        Some((at, self.instruction(at)))
    }

    /// An operand that does not change, as text.
    pub(super) fn fixed(&self, operand: &OperandKind<'_>) -> Option<String> {
        match operand {
            OperandKind::Integer(value) => Some(value.to_string()),
            OperandKind::Name(name) => {
                let is_written = self.indices().any(|at| writes(self.instruction(at), name));
                (!is_written).then(|| (*name).to_owned())
            }
            _ => None,
        }
    }

    /// Of an addition: the register that something is added to which does not change, and
    /// that.
    pub(super) fn link(
        &self,
        adding: &'m Instruction<'a>,
        is_wide: bool,
    ) -> Option<(&'a str, String)> {
        let [a, b] = added(adding, is_wide)?;
        match (a, self.fixed(b)) {
            (OperandKind::Name(from), Some(by)) => Some((from, by)),
            _ => match b {
                OperandKind::Name(from) => Some((from, self.fixed(a)?)),
                _ => None,
            },
        }
    }

    /// The register that ends the loop under the guard of its branch.
    fn counter(&self, guard: Guard<'_>) -> Option<Counter> {
        let (tested, test) = self.only(guard.register)?;
        let (value, bound, compared) = condition(test, guard.negated)?;
        let (made, making) = self.only(value)?;
        let (name, plus, (update, moving)) = match step(making, value, compared.is_wide) {
            Some(_) => (value, None, (made, making)),
            None => {
                let (name, plus) = self.link(making, compared.is_wide)?;
                (name, Some(plus), self.only(name)?)
            }
        };
        let step = step(moving, name, compared.is_wide)?;
        let is_right = match &step {
            Step::Fixed(step) => match compared.by {
                By::Differs => step.unsigned_abs().is_power_of_two(),
                By::Less => *step > 0,
                By::Greater => *step < 0,
            },
            Step::Register(name) => {
                compared.by == By::Less && self.fixed(&OperandKind::Name(name)).is_some()
            }
        };
        // Compared is what the pass has made of it.
        let is_behind = made < tested && update <= made;
        Some(Counter {
            name: name.to_owned(),
            step,
            plus,
            bound: self.fixed(bound)?,
            compared,
        })
        .filter(|_| is_right && is_behind)
    }
}

impl Counter {
    /// So many passes, or as many as can be compared.
    fn passes(&self, mut passes: u64) -> u64 {
        if let Step::Fixed(step) = self.step {
            while passes > 1 && passes * step.unsigned_abs() > MOST {
                passes /= 2;
            }
        }
        passes
    }
}

/// What is added in each pass.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Fixed(i64),
    /// A register, which nothing in the loop writes.
    Register(String),
}

/// How the register is compared with its bound, as long as the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compared {
    by: By,
    is_signed: bool,
    is_wide: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Differs,
    Less,
    Greater,
}

/// The most distance that is compared with a constant.
const MOST: u64 = 1 << 31;
impl Near {
    /// Of a block, if it is such a loop; its passes have so many steps together, at most.
    /// `pieces` is as in `shared`.
    pub(super) fn of(
        code: &Code<'_, '_>,
        cfg: &Cfg,
        block: BlockId,
        pieces: &[u32],
        (pass, most): (u64, u64),
    ) -> Option<Near> {
        let own = &cfg.blocks[block.0 as usize];
        if !own.successors.contains(&block) || own.successors.len() != 2 {
            return None;
        }
        let body = Body {
            code,
            first: own.first as usize,
            branch: own.end as usize - 1,
        };
        let piece = pieces.get(body.first)?;
        // (Elsewhere the same name may be another register.)
        let is_whole = pieces[body.first..=body.branch]
            .iter()
            .all(|other| other == piece);
        if !is_whole || body.indices().any(|at| meets(body.instruction(at))) {
            return None;
        }
        let back = body.instruction(body.branch);
        let guard = back.guard?;
        let [target] = &back.operands[..] else {
            return None;
        };
        let OperandKind::Name(label) = target.kind else {
            return None;
        };
        let counter = body.counter(guard)?;
        let passes = counter.passes(1 << (most / pass.max(1)).max(1).ilog2());
        let sign = if guard.negated { "!" } else { "" };
        Some(Near {
            branch: body.branch,
            passes,
            moving: Moving::of(&body, passes),
            label: label.to_owned(),
            guard: format!("{sign}{}", guard.register),
            counter,
        })
    }

    /// Goes to the far copy if there are many passes left; or, where it is limited, if what
    /// is added to pointers is large. The fences of these are `entry`.
    pub(super) fn begin(&self, entry: &str, is_limited: bool, out: &mut String) {
        out.push_str(entry);
        let Compared {
            by,
            is_signed,
            is_wide,
        } = self.counter.compared;
        let Counter {
            name,
            step,
            plus,
            bound,
            ..
        } = &self.counter;
        let (ahead, spare, bits) = match is_wide {
            true => ("%__rf_far", "%__rf_wide", 64),
            false => ("%__rf_ahead", "%__rf_spare", 32),
        };
        let passes = self.passes;
        let mut value = name.as_str();
        if let Some(plus) = plus {
            line!(out, "add.s{bits} {ahead}, {value}, {plus};");
            value = ahead;
        }
        let is_down = by == By::Greater || matches!(step, Step::Fixed(step) if *step < 0);
        match is_down {
            false => line!(out, "sub.s{bits} {ahead}, {bound}, {value};"),
            true => line!(out, "sub.s{bits} {ahead}, {value}, {bound};"),
        }
        let (fixed, size) = match step {
            Step::Fixed(step) => (step.unsigned_abs(), step.unsigned_abs().to_string()),
            Step::Register(name) => (0, name.clone()),
        };
        let is_one = size == "1";
        if by == By::Differs && !is_one {
            let rest = fixed.saturating_sub(1);
            line!(out, "and.b{bits} {spare}, {ahead}, {rest};");
        }
        line!(out, "add.s{bits} {ahead}, {ahead}, -1;");
        match step {
            Step::Fixed(_) => {
                let most = passes * fixed;
                line!(out, "setp.ge.u{bits} %__rf_due, {ahead}, {most};");
            }
            Step::Register(step) => {
                line!(out, "shr.u{bits} {ahead}, {ahead}, {};", passes.ilog2());
                line!(out, "setp.ge.u{bits} %__rf_due, {ahead}, {step};");
            }
        }
        if by == By::Differs && !is_one {
            line!(out, "setp.ne.or.s{bits} %__rf_due, {spare}, 0, %__rf_due;");
        } else if !is_one {
            let most = match (is_signed, is_wide) {
                (false, _) => -1,
                (true, false) => i64::from(i32::MAX),
                (true, true) => i64::MAX,
            };
            match is_down {
                false => line!(out, "sub.s{bits} {spare}, {most}, {bound};"),
                // (The least value is what the largest one is not.)
                true => line!(out, "sub.s{bits} {spare}, {bound}, {};", !most),
            }
            line!(
                out,
                "setp.lt.or.u{bits} %__rf_due, {spare}, {size}, %__rf_due;"
            );
        }
        if is_limited {
            self.moving.limits(out);
        }
        line!(out, "@%__rf_due bra $__rf_far_{};", self.branch);
        put(out, format_args!("\n$__rf_near_{}:\n\t", self.branch));
    }

    /// Where the branch back goes.
    pub(super) fn again(&self, out: &mut String) {
        put(out, format_args!("$__rf_near_{}", self.branch));
    }

    /// What comes behind it.
    pub(super) fn end(&self, out: &mut String) {
        put(out, format_args!("\n$__rf_out_{}:\n\t", self.branch));
    }

    /// The far copy: its look, and the body, which is text.
    pub(super) fn far(&self, look: &str, body: &str, out: &mut String) {
        let (branch, guard) = (self.branch, &self.guard);
        put(out, format_args!("\n$__rf_far_{branch}:\n\t{look}"));
        line!(out, "mov.u32 %__rf_rest, {};", self.passes);
        put(out, format_args!("\n$__rf_strip_{branch}:\n\t{body}"));
        line!(out, "add.s32 %__rf_rest, %__rf_rest, -1;");
        line!(out, "setp.ne.and.s32 %__rf_more, %__rf_rest, 0, {guard};");
        line!(out, "@%__rf_more bra $__rf_strip_{branch};");
        line!(out, "@{guard} bra {};", self.label);
        line!(out, "bra $__rf_out_{branch};");
    }
}

/// The registers of loops that are counted ahead.
pub(super) fn head(out: &mut String) {
    line!(out, ".reg .b32 %__rf_rest, %__rf_ahead, %__rf_spare;");
    line!(out, ".reg .b64 %__rf_far, %__rf_wide;");
    line!(out, ".reg .pred %__rf_more;");
}

/// Whether threads may meet in an instruction, or are counted otherwise there: lanes may
/// have different numbers of passes left, and would not meet in two copies.
fn meets(instruction: &Instruction<'_>) -> bool {
    let info = ptx::table::classify(instruction);
    instruction.opcode.mnemonic() == Mnemonic::Call
        || super::looks::sleeps(instruction)
        || info.is_none_or(|info| info.convergence != Convergence::None)
}

/// Whether an instruction may write a register.
fn writes(instruction: &Instruction<'_>, register: &str) -> bool {
    super::shared::written(instruction).contains(&register)
}

/// The register and the bound of a comparison by which the loop goes on.
fn condition<'i, 'a>(
    test: &'i Instruction<'a>,
    is_negated: bool,
) -> Option<(&'a str, &'i OperandKind<'a>, Compared)> {
    use Modifier as M;
    let [destination, left, right] = &test.operands[..] else {
        return None;
    };
    let is_plain = test.opcode.mnemonic() == Mnemonic::Setp
        && test.guard.is_none()
        && test.opcode.modifiers().len() == 2
        && matches!(destination.kind, OperandKind::Name(_));
    let OperandKind::Name(counter) = left.kind else {
        return None;
    };
    let kind = test.opcode.types().next().filter(|_| is_plain)?;
    let (is_signed, is_wide) = match kind {
        Type::S32 => (true, false),
        Type::U32 | Type::B32 => (false, false),
        Type::S64 => (true, true),
        Type::U64 | Type::B64 => (false, true),
        _ => return None,
    };
    let has = |modifier| test.opcode.has(modifier);
    let by = match is_negated {
        false if has(M::Ne) => By::Differs,
        true if has(M::Eq) => By::Differs,
        false if has(M::Lt) => By::Less,
        true if has(M::Ge) => By::Less,
        false if has(M::Gt) => By::Greater,
        true if has(M::Le) => By::Greater,
        _ => return None,
    };
    let compared = Compared {
        by,
        is_signed,
        is_wide,
    };
    Some((counter, &right.kind, compared))
}

/// The operands of an addition.
fn added<'i, 'a>(making: &'i Instruction<'a>, is_wide: bool) -> Option<[&'i OperandKind<'a>; 2]> {
    let [_, a, b] = &making.operands[..] else {
        return None;
    };
    let bytes = if is_wide { 8 } else { 4 };
    let is_plain = making.guard.is_none()
        && making.opcode.mnemonic() == Mnemonic::Add
        && making.opcode.modifiers().len() == 1
        && making
            .opcode
            .types()
            .next()
            .is_some_and(|kind| kind.bytes() == bytes);
    is_plain.then_some([&a.kind, &b.kind])
}

/// What an instruction adds to a register.
fn step(update: &Instruction<'_>, counter: &str, is_wide: bool) -> Option<Step> {
    let [to, from, by] = &update.operands[..] else {
        return None;
    };
    let is_own = |operand: &ptx::Operand<'_>| matches!(operand.kind, OperandKind::Name(name) if name == counter);
    let mut types = update.opcode.types();
    let is_as_wide = types
        .next()
        .is_some_and(|kind| kind.bytes() == if is_wide { 8 } else { 4 });
    let is_plain =
        update.guard.is_none() && update.opcode.modifiers().len() == 1 && is_as_wide && is_own(to);
    if !is_plain {
        return None;
    }
    match (update.opcode.mnemonic(), &from.kind, &by.kind) {
        (Mnemonic::Add, _, OperandKind::Integer(by)) if is_own(from) => fixed(*by, is_wide),
        (Mnemonic::Sub, _, OperandKind::Integer(by)) if is_own(from) => {
            fixed(by.checked_neg()?, is_wide)
        }
        (Mnemonic::Add, _, OperandKind::Name(by)) if is_own(from) && *by != counter => {
            Some(Step::Register((*by).to_owned()))
        }
        (Mnemonic::Add, OperandKind::Name(by), _)
            if is_own(&update.operands[2]) && *by != counter =>
        {
            Some(Step::Register((*by).to_owned()))
        }
        _ => None,
    }
}

fn fixed(by: i64, is_wide: bool) -> Option<Step> {
    // (Of 32 bits, also as a constant without a sign.)
    let by = if is_wide { by } else { i64::from(by as i32) };
    (by != 0 && by.unsigned_abs() <= MOST / 2).then_some(Step::Fixed(by))
}
