//! Predicates off an access that fails its check and goes to no sink. Where the
//! access is skipped, its result is zero; the result of a wait on a barrier is
//! true. Results are set before the access: behind it, they would have to wait
//! for it.
//!
//! Most instructions are skipped lane by lane. Some instructions must be
//! executed by all lanes of a warp together (PTX ISA, `.aligned`). All lanes
//! skip such an instruction if the check fails in one lane: the lanes vote
//! under the instruction's own guard, so that control flow does not diverge.
//! Some copies signal a barrier when their bytes have arrived. If such a copy
//! is skipped, check code signals the barrier instead, so that no thread waits
//! forever.

use super::emit::Emit;
use super::pieces::{operand_name, outside_only};
use super::plan::Planned;
use super::text::*;
use super::window::FailurePolicy;
use crate::patch::{Patch, line, put};
use analysis::{Code, Inst, Referent, Role};
use ptx::table::{Access, Predication, Width};
use ptx::{Guard, Instruction, Mnemonic, Modifier, OperandKind};

/// The predicates that skip an instruction.
#[derive(Clone, Copy)]
pub(super) struct PredicatedOff {
    /// True if the guard holds and a check failed: the instruction is skipped.
    pub(super) verdict: Op<'static>,
    /// Replaces the guard of a guarded instruction.
    go: Op<'static>,
}

impl<'a> Emit<'_, '_, 'a> {
    /// The predicates that skip an instruction if a check of one of its
    /// accesses fails. Writes the code that computes them.
    pub(super) fn predicated_off(
        &self,
        accesses: &[&Planned],
        inst: &Inst<'_, 'a>,
        patch: &mut Patch,
    ) -> Option<PredicatedOff> {
        let skipped = accesses.iter().find(|a| a.policy == FailurePolicy::Skipped);
        if let Some(skipped) = skipped {
            return Some(PredicatedOff {
                verdict: self.verdict_of(skipped)?,
                go: Op::Family(GO, skipped.group),
            });
        }
        let stopped: Vec<&Planned> = accesses
            .iter()
            .copied()
            .filter(|access| access.policy == FailurePolicy::Stopped)
            .collect();
        let first = stopped.first()?;
        let mut verdicts = vec![self.verdict_of(first)?];
        for other in &stopped[1..] {
            verdicts.push(self.verdict_of(other)?);
        }
        let instruction = inst.instruction;
        let guard = instruction.guard;
        let info = self.analysis.code.info(first.instruction as usize);
        let is_collective = info.is_some_and(|info| info.predication == Predication::Warp);
        patch.insert(inst.attached_from, |out| {
            match verdicts[..] {
                [one] if is_collective => {
                    let under = Under(guard);
                    line!(out, "{under}vote.sync.any.pred {STOP}, {one}, 0xffffffff;");
                    if let Some(guard) = guard {
                        outside_only(STOP, guard.register, guard.negated, out);
                    }
                }
                [one] => line!(out, "mov.pred {STOP}, {one};"),
                _ => {
                    line!(out, "or.pred {STOP}, {}, {};", verdicts[0], verdicts[1]);
                    for verdict in &verdicts[2..] {
                        line!(out, "or.pred {STOP}, {STOP}, {verdict};");
                    }
                }
            }
            self.complete(&stopped, instruction, out);
            if let Some(guard) = guard {
                goes_on(GO_ON, guard, STOP, out);
            }
        });
        Some(PredicatedOff {
            verdict: STOP,
            go: GO_ON,
        })
    }

    /// The predicate that is true where an access failed its check.
    fn verdict_of(&self, access: &Planned) -> Option<Op<'static>> {
        let group = &self.plan.groups[access.group as usize];
        let owner = group.twin.unwrap_or(access.group);
        let kept = self.plan.groups[owner as usize].keeps?;
        Some(Op::Family(KEPT, kept))
    }

    /// Signals to the barrier of a stopped copy that its bytes have arrived,
    /// unless the barrier itself is out of bounds.
    fn complete(&self, stopped: &[&Planned], instruction: &Instruction<'a>, out: &mut String) {
        let Some(completion) = Completion::of(instruction) else {
            return;
        };
        let of_barrier = stopped
            .iter()
            .find(|access| access.operand == completion.operand);
        if of_barrier.is_some() && stopped.len() == 1 {
            return;
        }
        let under = match of_barrier.and_then(|access| self.verdict_of(access)) {
            Some(verdict) => {
                line!(out, "xor.pred {OTHER}, {STOP}, {verdict};");
                OTHER
            }
            None => STOP,
        };
        let Completion {
            base,
            offset,
            bytes,
            ..
        } = completion;
        line!(
            out,
            "@{under} mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [{base}+{offset}], {bytes};"
        );
    }
}

/// How an instruction signals to a barrier that bytes have arrived.
struct Completion<'a> {
    /// Index of the barrier's operand.
    operand: usize,
    base: &'a str,
    offset: i64,
    bytes: String,
}

impl<'a> Completion<'a> {
    /// `None` if it signals none, or if the number of bytes is unknown.
    fn of(instruction: &Instruction<'a>) -> Option<Completion<'a>> {
        if !instruction.opcode.has(Modifier::MbarrierCompleteTxBytes) {
            return None;
        }
        let info = ptx::table::classify(instruction)?;
        let [first, .., barrier] = info.accesses[..] else {
            return None;
        };
        let Some(OperandKind::Address(address)) =
            instruction.operands.get(barrier.operand).map(|o| &o.kind)
        else {
            return None;
        };
        Some(Completion {
            operand: barrier.operand,
            base: address.base?,
            offset: address.offset,
            bytes: bytes_of(instruction, &first)?,
        })
    }
}

fn bytes_of(instruction: &Instruction<'_>, access: &Access) -> Option<String> {
    match access.width {
        Width::Bytes(bytes) => Some(bytes.to_string()),
        Width::Operand(operand) => match instruction.operands.get(operand)?.kind {
            OperandKind::Integer(bytes) => Some(bytes.to_string()),
            _ => operand_name(instruction, operand).map(str::to_owned),
        },
        _ => None,
    }
}

/// Computes `go`, which replaces a guard: the instruction executes where the
/// guard holds and `verdict` does not. `verdict` implies the guard.
pub(super) fn goes_on(go: Op<'_>, guard: Guard<'_>, verdict: Op<'_>, out: &mut String) {
    let operation = if guard.negated { "or" } else { "xor" };
    line!(out, "{operation}.pred {go}, {}, {verdict};", guard.register);
}

/// Puts the predicate that skips it before the program's instruction.
pub(super) fn guard(
    predicated_off: PredicatedOff,
    instruction: &Instruction<'_>,
    patch: &mut Patch,
) {
    match instruction.guard {
        None => patch.insert(instruction.span.start, |out| {
            out.push_str(&format!("@!{} ", predicated_off.verdict));
        }),
        Some(guard) => patch.edit(guard.span.start, guard.span.end, |out| {
            let not = if guard.negated { "!" } else { "" };
            out.push_str(&format!("@{not}{}", predicated_off.go));
        }),
    }
}

/// Whether an instruction reads what an operand refers to.
pub(super) fn is_read(code: &Code<'_, '_>, index: usize, referent: Referent) -> bool {
    let mut references = code.references_of(index).iter();
    references.any(|reference| reference.role != Role::Write && reference.referent == referent)
}

/// The registers that a skipped instruction does not write, with the places of
/// their settings.
pub(super) struct Results<'a> {
    /// Set to zero before the instruction.
    before: Vec<&'a str>,
    /// Behind it, because it reads them.
    after: Vec<&'a str>,
    bits: u32,
    outcome: Outcome,
    /// Under the verdict only: where the guard is false, they keep their values.
    is_guarded: bool,
}

impl<'a> Results<'a> {
    pub(super) fn of(code: &Code<'_, 'a>, index: usize) -> Option<Results<'a>> {
        let inst = &code.instructions[index];
        let outcome = result_of(inst.instruction)?;
        let mut results = Results {
            before: Vec::new(),
            after: Vec::new(),
            bits: u32::from(inst.register_bytes) * 8,
            outcome,
            is_guarded: inst.instruction.guard.is_some(),
        };
        if outcome == Outcome::Zero && !matches!(results.bits, 16 | 32 | 64) {
            return None;
        }
        let reads_some = code.references_of(index).iter().any(|reference| {
            reference.role == Role::Write && is_read(code, index, reference.referent)
        });
        let is_before = outcome == Outcome::Zero && !reads_some;
        let mut one = |kind: &OperandKind<'a>| {
            if let OperandKind::Name(name) = kind {
                match is_before {
                    true => results.before.push(name),
                    false => results.after.push(name),
                }
            }
        };
        match inst
            .instruction
            .operands
            .first()
            .map(|operand| &operand.kind)
        {
            Some(OperandKind::Vector(elements)) => {
                elements.iter().for_each(|element| one(&element.kind));
            }
            Some(kind) => one(kind),
            None => {}
        }
        Some(results)
    }

    /// The code before the instruction.
    pub(super) fn before(&self, verdict: Op<'_>, out: &mut String) {
        for name in &self.before {
            if self.is_guarded {
                put(out, format_args!("@{verdict} "));
            }
            line!(out, "mov.b{} {name}, 0;", self.bits);
        }
    }

    /// The code behind it.
    pub(super) fn after(&self, verdict: Op<'_>, out: &mut String) {
        for name in &self.after {
            match self.outcome {
                Outcome::Zero => put(
                    out,
                    format_args!("\n\t@{verdict} mov.b{} {name}, 0;", self.bits),
                ),
                Outcome::True => put(out, format_args!("\n\tor.pred {name}, {name}, {verdict};")),
            }
        }
    }
}

/// The value of the destination registers of a skipped instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The value of bytes that were not read.
    Zero,
    /// The wait is over.
    True,
}

/// The value of an instruction's first operand where it is skipped.
fn result_of(instruction: &Instruction<'_>) -> Option<Outcome> {
    let opcode = &instruction.opcode;
    match opcode.mnemonic() {
        Mnemonic::Ld | Mnemonic::Ldu | Mnemonic::Atom | Mnemonic::Ldmatrix => Some(Outcome::Zero),
        Mnemonic::Wmma if opcode.has(Modifier::Load) => Some(Outcome::Zero),
        Mnemonic::Mbarrier if opcode.has(Modifier::TestWait) || opcode.has(Modifier::TryWait) => {
            Some(Outcome::True)
        }
        Mnemonic::Mbarrier => Some(Outcome::Zero),
        _ => None,
    }
}
