//! Strip-mining: the loop of one block whose passes can be counted ahead becomes
//! a loop of strips, and only those look.
//!
//! ```text
//!                              L: counted look
//! L: body                         rest = min(passes left, most)
//!    setp p; @p bra L          S: body
//!                                 rest -= 1; @rest bra S
//!                                 @p bra L
//! ```
//!
//! A look between two passes keeps ptxas from unrolling the loop, and so from
//! having the loads of several passes under way at a time. Where the program
//! goes around for as long as one register, which a constant is added to, has
//! not come to a bound that does not change, the number of passes that are left
//! is known where a strip begins. The program's own condition still decides at
//! the end of each strip: a number that is too small costs time and nothing else.

use crate::patch::line;
use analysis::{BlockId, Cfg, Code};
use ptx::{Instruction, Mnemonic, Modifier, OperandKind, Type};

/// Steps of a strip, at most, and its passes.
const STEPS: u64 = 1 << 16;
const PASSES: (u64, u64) = (16, 128);

/// A loop in strips.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    /// Its branch back.
    pub(super) branch: usize,
    /// Passes of a strip, at most.
    pub(super) passes: u64,
    /// The register that is counted, and what is added to it in each pass.
    counter: String,
    step: i64,
    /// What it is compared with: a register, or a constant.
    bound: String,
    compared: Compared,
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
    /// It is on its side of the bound.
    Before,
    /// The same, or at the bound.
    UpTo,
}

impl Strip {
    /// Of a block, if it is such a loop; a pass has so many steps.
    pub(super) fn of(
        code: &Code<'_, '_>,
        cfg: &Cfg,
        block: BlockId,
        pieces: &[u32],
        steps: u64,
    ) -> Option<Strip> {
        let own = &cfg.blocks[block.0 as usize];
        if !own.successors.contains(&block) || own.successors.len() != 2 {
            return None;
        }
        let (first, branch) = (own.first as usize, own.end as usize - 1);
        let piece = pieces.get(first)?;
        // (Elsewhere the same name may be another register.)
        if !pieces[first..=branch].iter().all(|other| other == piece) {
            return None;
        }
        let passes = (STEPS / steps.max(1)).min(PASSES.1);
        if passes < PASSES.0 {
            return None;
        }
        let body = || (first..branch).map(|at| code.instructions[at].instruction);
        if body().any(|i| i.opcode.mnemonic() == Mnemonic::Call || super::looks::sleeps(i)) {
            return None;
        }
        let guard = code.instructions[branch].instruction.guard?;
        let mut tests = body().filter(|i| writes(i, guard.register));
        let (test, None) = (tests.next()?, tests.next()) else {
            return None;
        };
        let (counter, bound, compared) = condition(test, guard.negated)?;
        let mut updates = body().filter(|i| writes(i, counter));
        let (update, None) = (updates.next()?, updates.next()) else {
            return None;
        };
        let step = step(update, counter, compared)?;
        let is_towards = match compared.by {
            By::Differs => true,
            By::Before | By::UpTo => (step > 0) == is_upwards(test, guard.negated)?,
        };
        let is_fixed = match &bound {
            OperandKind::Integer(_) => true,
            OperandKind::Name(name) => !body().any(|i| writes(i, name)),
            _ => false,
        };
        // Compared is what the pass has made of it.
        if !is_towards || !is_fixed || test.span.start < update.span.start {
            return None;
        }
        Some(Strip {
            branch,
            passes: 1 << passes.ilog2(),
            counter: counter.to_owned(),
            step,
            bound: match bound {
                OperandKind::Integer(value) => value.to_string(),
                OperandKind::Name(name) => (*name).to_owned(),
                _ => return None,
            },
            compared,
        })
    }

    /// Counts the passes of the next strip.
    pub(super) fn begin(&self, out: &mut String) {
        let Compared {
            by,
            is_signed,
            is_wide,
        } = self.compared;
        let (to, bits) = if is_wide {
            ("%__rf_far", 64)
        } else {
            ("%__rf_ahead", 32)
        };
        let sign = if is_signed { 's' } else { 'u' };
        let (counter, bound) = (&self.counter, &self.bound);
        let is_up = self.step > 0;
        match (by, is_up) {
            (By::Differs, true) => line!(out, "sub.s{bits} {to}, {bound}, {counter};"),
            (By::Differs, false) => line!(out, "sub.s{bits} {to}, {counter}, {bound};"),
            (_, true) => {
                line!(out, "max.{sign}{bits} {to}, {counter}, {bound};");
                line!(out, "sub.s{bits} {to}, {to}, {counter};");
            }
            (_, false) => {
                line!(out, "min.{sign}{bits} {to}, {counter}, {bound};");
                line!(out, "sub.s{bits} {to}, {counter}, {to};");
            }
        }
        if by == By::Before {
            line!(out, "max.u{bits} {to}, {to}, 1;");
        }
        if by != By::UpTo {
            line!(out, "add.s{bits} {to}, {to}, -1;");
        }
        match self.step.unsigned_abs() {
            1 => {}
            step if step.is_power_of_two() => {
                line!(out, "shr.u{bits} {to}, {to}, {};", step.ilog2());
            }
            step => line!(out, "div.u{bits} {to}, {to}, {step};"),
        }
        if is_wide {
            line!(out, "min.u64 {to}, {to}, {};", self.passes - 1);
            line!(out, "cvt.u32.u64 %__rf_ahead, {to};");
        }
        line!(out, "min.u32 %__rf_rest, %__rf_ahead, {};", self.passes - 1);
        line!(out, "add.s32 %__rf_rest, %__rf_rest, 1;");
        crate::patch::put(out, format_args!("\n$__rf_strip_{}:\n\t", self.branch));
    }

    /// Goes to the next pass of the strip, if there is one.
    pub(super) fn again(&self, out: &mut String) {
        line!(out, "add.s32 %__rf_rest, %__rf_rest, -1;");
        line!(out, "setp.ne.s32 %__rf_more, %__rf_rest, 0;");
        line!(out, "@%__rf_more bra $__rf_strip_{};", self.branch);
    }
}

/// The registers of strips.
pub(super) fn head(out: &mut String) {
    line!(out, ".reg .b32 %__rf_rest, %__rf_ahead;");
    line!(out, ".reg .b64 %__rf_far;");
    line!(out, ".reg .pred %__rf_more;");
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
        false if has(M::Lt) || has(M::Gt) => By::Before,
        true if has(M::Ge) || has(M::Le) => By::Before,
        false if has(M::Le) || has(M::Ge) => By::UpTo,
        true if has(M::Gt) || has(M::Lt) => By::UpTo,
        _ => return None,
    };
    let compared = Compared {
        by,
        is_signed,
        is_wide,
    };
    Some((counter, &right.kind, compared))
}

/// Whether the loop goes on for as long as the register is less than its bound.
fn is_upwards(test: &Instruction<'_>, is_negated: bool) -> Option<bool> {
    use Modifier as M;
    let is_less = test.opcode.has_any(&[M::Lt, M::Le]);
    let is_greater = test.opcode.has_any(&[M::Gt, M::Ge]);
    (is_less != is_greater).then_some(is_less != is_negated)
}

/// What an instruction adds to a register.
fn step(update: &Instruction<'_>, counter: &str, compared: Compared) -> Option<i64> {
    let [to, from, by] = &update.operands[..] else {
        return None;
    };
    let OperandKind::Integer(by) = by.kind else {
        return None;
    };
    let is_own = |operand: &ptx::Operand<'_>| matches!(operand.kind, OperandKind::Name(name) if name == counter);
    let mut types = update.opcode.types();
    let is_as_wide = types
        .next()
        .is_some_and(|kind| (kind.bytes() == 8) == compared.is_wide);
    let is_plain = update.guard.is_none()
        && update.opcode.modifiers().len() == 1
        && is_as_wide
        && is_own(to)
        && is_own(from);
    let by = match update.opcode.mnemonic() {
        Mnemonic::Add => by,
        Mnemonic::Sub => by.checked_neg()?,
        _ => return None,
    };
    // (Of 32 bits, also as a constant without a sign.)
    let by = if compared.is_wide {
        by
    } else {
        i64::from(by as i32)
    };
    (is_plain && by != 0 && by.unsigned_abs() < 1 << 31).then_some(by)
}
