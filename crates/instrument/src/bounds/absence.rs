//! What stands in the place of an access that fails its check and has no
//! sink: nothing. The instruction is taken out by its predicate, and what it
//! would have given is zero, or true for who waits.
//!
//! Most instructions are skipped lane by lane. Those that all lanes of a warp
//! must execute together (PTX ISA, `.aligned`) are skipped by all of them where
//! one lane fails, by a vote under the instruction's own guard: no lane takes
//! another path. A copy that tells a barrier when its bytes are there is
//! replaced by telling the barrier, so that nobody waits for ever.

use super::emit::Emit;
use super::pieces::{operand_name, outside_only};
use super::plan::Planned;
use super::text::*;
use super::window::Fate;
use crate::patch::{Patch, line};
use analysis::Inst;
use ptx::table::{Access, Predication, Width};
use ptx::{Guard, Instruction, Mnemonic, Modifier, OperandKind};

/// The predicates that take an instruction out.
#[derive(Clone, Copy)]
pub(super) struct Absence {
    /// It does not happen: its guard holds, and a check failed.
    pub(super) verdict: Op<'static>,
    /// With a guard, what takes the guard's place.
    go: Op<'static>,
}

impl<'a> Emit<'_, '_, 'a> {
    /// What takes an instruction out, if a failed check of one of its accesses
    /// does; writes what computes it.
    pub(super) fn absence(
        &self,
        accesses: &[&Planned],
        inst: &Inst<'_, 'a>,
        patch: &mut Patch,
    ) -> Option<Absence> {
        let skipped = accesses.iter().find(|a| a.fate == Fate::Skipped);
        if let Some(skipped) = skipped {
            return Some(Absence {
                verdict: self.verdict_of(skipped)?,
                go: Op::Family(GO, skipped.group),
            });
        }
        let stopped: Vec<&Planned> = accesses
            .iter()
            .copied()
            .filter(|access| access.fate == Fate::Stopped)
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
        Some(Absence {
            verdict: STOP,
            go: GO_ON,
        })
    }

    /// The predicate that holds where an access failed its check.
    fn verdict_of(&self, access: &Planned) -> Option<Op<'static>> {
        let group = &self.plan.groups[access.group as usize];
        let owner = group.twin.unwrap_or(access.group);
        let kept = self.plan.groups[owner as usize].keeps?;
        Some(Op::Family(KEPT, kept))
    }

    /// Tells the barrier of a stopped copy that its bytes are there, unless it
    /// is the barrier that is outside.
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

/// How an instruction tells a barrier that bytes are there.
struct Completion<'a> {
    /// The operand that is the barrier.
    operand: usize,
    base: &'a str,
    offset: i64,
    bytes: String,
}

impl<'a> Completion<'a> {
    /// `None` if it tells none, or the number of bytes is not to be had.
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

/// `go`: what stands in the place of a guard, so that its instruction happens
/// where it holds and `verdict`, which implies it, does not.
pub(super) fn goes_on(go: Op<'_>, guard: Guard<'_>, verdict: Op<'_>, out: &mut String) {
    let operation = if guard.negated { "or" } else { "xor" };
    line!(out, "{operation}.pred {go}, {}, {verdict};", guard.register);
}

/// Puts what takes it out before the program's instruction.
pub(super) fn guard(absence: Absence, instruction: &Instruction<'_>, patch: &mut Patch) {
    match instruction.guard {
        None => patch.insert(instruction.span.start, |out| {
            out.push_str(&format!("@!{} ", absence.verdict));
        }),
        Some(guard) => patch.edit(guard.span.start, guard.span.end, |out| {
            let not = if guard.negated { "!" } else { "" };
            out.push_str(&format!("@{not}{}", absence.go));
        }),
    }
}

/// Gives the registers that an instruction would have set a value where it
/// does not happen.
pub(super) fn zero(verdict: Op<'_>, inst: &Inst<'_, '_>, patch: &mut Patch) {
    let instruction = inst.instruction;
    let Some(result) = result_of(instruction) else {
        return;
    };
    let bits = u32::from(inst.register_bytes) * 8;
    let mut one = |kind: &OperandKind<'_>| {
        let OperandKind::Name(name) = kind else {
            return;
        };
        patch.insert(instruction.span.end, |out| match result {
            Outcome::Zero if matches!(bits, 16 | 32 | 64) => {
                out.push_str(&format!("\n\t@{verdict} mov.b{bits} {name}, 0;"));
            }
            Outcome::Zero => {}
            Outcome::True => {
                out.push_str(&format!("\n\tor.pred {name}, {name}, {verdict};"));
            }
        });
    };
    match instruction.operands.first().map(|operand| &operand.kind) {
        Some(OperandKind::Vector(elements)) => {
            elements.iter().for_each(|element| one(&element.kind))
        }
        Some(kind) => one(kind),
        None => {}
    }
}

/// What the registers hold that a skipped instruction would have set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing was read.
    Zero,
    /// Nothing is waited for.
    True,
}

/// What an instruction gives where it is skipped, in its first operand.
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
