//! Follows the code that predicates off the program's instructions where a
//! check fails, and the code that replaces them.

use super::Errors;
use super::checks::{State, Text, integer, name};
use super::facts::{LeftOut, completion, left_out};
use super::written::is_own;
use super::written::number;
use crate::protocol::REGISTER_PREFIX;
use crate::protocol::family::GO;
use crate::protocol::register::{GO_ON, OTHER, STOP};
use ptx::table::{Predication, classify};
use ptx::{Instruction, Operand, OperandKind};
use rustc_hash::FxHashMap;

/// The instruction that signals to a barrier that bytes have arrived.
const COMPLETE: &str = "mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64";

/// What is known of the predicates that take instructions out.
#[derive(Default)]
pub(super) struct PredicatedOffCode {
    /// `%__rf_gN`, `%__rf_go`: the program's guard and the verdict that it is
    /// made of; whether the guard is negated.
    go: FxHashMap<Text, (Text, bool, Text)>,
    /// The verdict that the last of the program's instructions was skipped
    /// by, the registers that it writes, and what they must be set to.
    set: Option<(Text, Vec<Text>, LeftOut)>,
    /// The registers that were set to zero for the program's next instruction.
    before: Vec<ResultSet>,
    stop: Option<Stop>,
    /// A signal to a barrier: base, offset, bytes.
    completes: Option<Signal>,
    /// The verdict on the barrier that the next instruction signals, if it
    /// needs one.
    barrier: Option<Text>,
}

/// A register that was set to zero before the instruction that writes it.
struct ResultSet {
    register: Text,
    bits: u32,
    /// Only where this verdict holds.
    under: Option<Text>,
    span: ptx::Span,
}

/// A signal to a barrier that bytes have arrived.
struct Signal {
    base: Text,
    offset: i64,
    bytes: Text,
    /// Not where this verdict holds, which is of the barrier itself.
    unless: Option<Text>,
}

/// What `%__rf_stop` is made of.
struct Stop {
    /// It holds where any of these does.
    verdicts: Vec<Text>,
    /// All lanes of the warp have the same, asked under this guard.
    voted: Option<Option<Text>>,
    /// And all of these hold.
    limits: Vec<Text>,
}

impl Stop {
    /// Whether it is fit to take out an instruction with this guard.
    fn fits(&self, guard: Option<&Text>, old: &Instruction<'_>) -> bool {
        match &self.voted {
            None => !is_collective(old) && self.limits.is_empty(),
            // Lanes whose guard is false did not vote.
            Some(under) => under.as_ref() == guard && self.limits.iter().eq(guard),
        }
    }
}

/// Whether all lanes of a warp must execute an instruction together.
fn is_collective(instruction: &Instruction<'_>) -> bool {
    classify(instruction).is_some_and(|info| info.predication == Predication::Warp)
}

/// Whether an instruction reads a register.
fn is_source(instruction: &Instruction<'_>, register: &str) -> bool {
    let sources = instruction.operands.get(1..).unwrap_or_default();
    sources.iter().any(|operand| names(operand, register))
}

/// Whether an operand names a register.
fn names(operand: &Operand<'_>, register: &str) -> bool {
    match &operand.kind {
        OperandKind::Name(name) | OperandKind::Not(name) | OperandKind::NameOffset(name, _) => {
            // Or a component of a vector: `%v.x`.
            let rest = name.strip_prefix(register);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
        OperandKind::Text(text) => text.contains(register),
        OperandKind::Pair(left, right) => *left == register || *right == register,
        OperandKind::Vector(elements) | OperandKind::List(elements) => {
            elements.iter().any(|element| names(element, register))
        }
        OperandKind::Address(address) => {
            address.base == Some(register)
                || address.coordinates.iter().any(|of| names(of, register))
        }
        _ => false,
    }
}

impl PredicatedOffCode {
    /// The access to an instruction's barrier has a verdict.
    pub(super) fn of_barrier(&mut self, verdict: &str) {
        self.barrier = Some(verdict.to_owned());
    }

    /// A verdict is made anew: what was made of the old one is not about it.
    pub(super) fn remade(&mut self, verdict: &str) {
        self.go.retain(|_, (_, _, of)| of != verdict);
        let is_of = |name: &Text| name == verdict;
        self.stop.take_if(|stop| stop.verdicts.iter().any(is_of));
    }

    /// How many registers were set for the program's next instruction.
    pub(super) fn set_before(&self) -> usize {
        self.before.len()
    }

    /// Whether an instruction sets a register of the program to zero, for the
    /// program's next instruction.
    pub(super) fn sets_before(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let bits = match instruction.opcode.text {
            "mov.b16" => 16,
            "mov.b32" => 32,
            "mov.b64" => 64,
            _ => return false,
        };
        let under = match instruction.guard {
            None => None,
            Some(guard) if !guard.negated && is_own(guard.register) => {
                Some(guard.register.to_owned())
            }
            Some(_) => return false,
        };
        if first.is_empty() || is_own(first) || integer(instruction, 1) != Some(0) {
            return false;
        }
        self.before.push(ResultSet {
            register: first.to_owned(),
            bits,
            under,
            span: instruction.span,
        });
        true
    }

    /// Whether an instruction sets what the one before it did not.
    pub(super) fn sets(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let Some((verdict, written, outcome)) = &mut self.set else {
            return false;
        };
        let place = written.iter().position(|name| name == first);
        let under = instruction
            .guard
            .as_ref()
            .is_some_and(|guard| !guard.negated && guard.register == verdict.as_str());
        let sets = match outcome {
            LeftOut::Zero => {
                under
                    && matches!(instruction.opcode.text, "mov.b16" | "mov.b32" | "mov.b64")
                    && integer(instruction, 1) == Some(0)
            }
            LeftOut::True => {
                instruction.guard.is_none()
                    && instruction.opcode.text == "or.pred"
                    && name(instruction, 1) == Some(first)
                    && name(instruction, 2) == Some(verdict.as_str())
            }
        };
        match place {
            Some(place) if sets => drop(written.remove(place)),
            _ => return false,
        }
        true
    }
}

impl State {
    /// Follows an instruction of check code if it is about taking the
    /// program's next one out.
    pub(super) fn predicated_off_code(
        &mut self,
        instruction: &Instruction<'_>,
        first: &str,
    ) -> bool {
        let (one, other) = (self.text(instruction, 1), self.text(instruction, 2));
        let stop = |verdicts, voted| {
            Some(Stop {
                verdicts,
                voted,
                limits: Vec::new(),
            })
        };
        if first == STOP {
            // What was made of it is of its old value.
            let own = |(from, _, verdict): &(Text, bool, Text)| from != STOP && verdict != STOP;
            self.predicated_off.go.retain(|_, go| own(go));
        }
        match (instruction.opcode.text, first) {
            ("mov.pred", STOP) => self.predicated_off.stop = stop(vec![one], None),
            ("or.pred", STOP) if one == STOP => {
                if let Some(stop) = &mut self.predicated_off.stop {
                    stop.verdicts.push(other);
                }
            }
            ("or.pred", STOP) => self.predicated_off.stop = stop(vec![one, other], None),
            ("vote.sync.any.pred", STOP) => {
                let everyone = integer(instruction, 2) == Some(0xffff_ffff);
                let guard = self.guard_of(instruction);
                self.predicated_off.stop = stop(vec![one], Some(guard)).filter(|_| everyone);
            }
            ("and.pred", STOP) if one == STOP => {
                let limit = self
                    .negated
                    .get(&other)
                    .map_or(other, |positive| format!("!{positive}"));
                if let Some(stop) = &mut self.predicated_off.stop {
                    stop.limits.push(limit);
                }
            }
            (COMPLETE, _) => return self.completes(instruction),
            (_, STOP) => self.predicated_off.stop = None,
            ("xor.pred" | "or.pred", _)
                if instruction.guard.is_none()
                    && (number(first, GO).is_some() || [GO_ON, OTHER].contains(&first)) =>
            {
                let negated = instruction.opcode.text == "or.pred";
                self.seal(&other);
                self.predicated_off
                    .go
                    .insert(first.to_owned(), (one, negated, other));
            }
            _ => return false,
        }
        if let ("mov.pred" | "or.pred" | "vote.sync.any.pred", STOP, Some(stop)) = (
            instruction.opcode.text,
            first,
            self.predicated_off.stop.as_ref(),
        ) {
            for verdict in stop.verdicts.clone() {
                self.seal(&verdict);
            }
        }
        true
    }

    /// Something is made of a verdict: it may not change any more.
    fn seal(&mut self, verdict: &str) {
        if let Some(verdict) = self.verdicts.get_mut(verdict) {
            verdict.is_sealed = true;
        }
    }

    /// A signal to a barrier: where the next instruction is skipped, unless the
    /// barrier itself is out of bounds.
    fn completes(&mut self, instruction: &Instruction<'_>) -> bool {
        let Some(Stop { verdicts, .. }) = &self.predicated_off.stop else {
            return false;
        };
        let (Some(guard), Some(OperandKind::Address(address))) = (
            instruction.guard.filter(|guard| !guard.negated),
            instruction.operands.first().map(|o| &o.kind),
        ) else {
            return false;
        };
        let unless = match (guard.register, self.predicated_off.go.get(guard.register)) {
            (STOP, _) => None,
            (_, Some((from, false, verdict))) if from == STOP && verdicts.contains(verdict) => {
                Some(verdict.clone())
            }
            _ => return false,
        };
        self.predicated_off.completes = Some(Signal {
            base: address.base.unwrap_or("").to_owned(),
            offset: address.offset,
            bytes: self.text(instruction, 1),
            unless,
        });
        true
    }

    /// The verdicts that take an instruction out, exactly where it would have
    /// happened and one of them holds.
    pub(super) fn skipping_verdicts(
        &self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
    ) -> Vec<Text> {
        let Some(verdict) = self.verdict_of(old, new) else {
            return Vec::new();
        };
        if verdict != STOP {
            let fits = !is_collective(old);
            return fits.then_some(verdict).into_iter().collect();
        }
        let guard = self.guard_of(old);
        match &self.predicated_off.stop {
            Some(stop) if stop.fits(guard.as_ref(), old) => stop.verdicts.clone(),
            _ => Vec::new(),
        }
    }

    /// The predicate that replaces an instruction's guard, if the instruction
    /// is skipped exactly where the guard and the predicate require it.
    fn verdict_of(&self, old: &Instruction<'_>, new: &Instruction<'_>) -> Option<Text> {
        let guard = new.guard.as_ref()?;
        if !guard.register.starts_with(REGISTER_PREFIX) {
            return None;
        }
        match &old.guard {
            None => guard.negated.then(|| guard.register.to_owned()),
            Some(own) => {
                let (program, negated, verdict) = self.predicated_off.go.get(guard.register)?;
                let same = *program == self.resolve(own.register)
                    && *negated == own.negated
                    && guard.negated == own.negated;
                same.then(|| verdict.clone())
            }
        }
    }

    /// Notes the verdict that predicates the program's instruction off. The
    /// code that replaces the instruction must be before and after it.
    pub(super) fn note_predicated_off(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        bytes: u8,
        errors: &mut Errors<'_>,
    ) {
        self.predicated_off.set = None;
        let completes = self.predicated_off.completes.take();
        let barrier = self.predicated_off.barrier.take();
        let stop = self.predicated_off.stop.take();
        let verdict = self.verdict_of(old, new);
        let stopped = stop.filter(|_| verdict.as_deref() == Some(STOP));
        let completion = completion(old);
        let is_signalled = match (&completes, &completion, &stopped) {
            (Some(signal), Some(completion), Some(stop)) => {
                let ((base, offset), bytes) = (completion.barrier, &completion.bytes);
                signal.base == base
                    && signal.offset == offset
                    && (signal.bytes == *bytes || signal.bytes == self.resolve(bytes))
                    && signal.unless == barrier
                    && barrier.iter().all(|name| stop.verdicts.contains(name))
            }
            (Some(_), ..) => false,
            // A barrier that is out of bounds itself cannot be signalled.
            (None, Some(_), Some(stop)) => stop.verdicts.len() < 2,
            (None, ..) => true,
        };
        if !is_signalled {
            errors.at(
                new.span,
                "a barrier is not signalled for exactly the bytes of a copy that is skipped",
            );
        }
        let (Some(verdict), Some(outcome)) = (verdict, left_out(old)) else {
            return self.no_result_is_set(errors);
        };
        // A move cannot write zero to registers of other sizes.
        if outcome == LeftOut::Zero && !matches!(bytes, 2 | 4 | 8) {
            return self.no_result_is_set(errors);
        }
        let mut written = Vec::new();
        let mut one = |kind: &OperandKind<'_>| {
            if let OperandKind::Name(name) = kind {
                written.push((*name).to_owned());
            }
        };
        match old.operands.first().map(|o| &o.kind) {
            Some(OperandKind::Vector(elements)) => elements.iter().for_each(|e| one(&e.kind)),
            Some(kind) => one(kind),
            None => {}
        }
        // Where the program's guard is false, the registers keep their values.
        let has_guard = old.guard.is_some();
        let sets = |set: &ResultSet| {
            let is_under = match &set.under {
                Some(under) => *under == verdict,
                None => !has_guard,
            };
            is_under && set.bits == u32::from(bytes) * 8 && !is_source(old, &set.register)
        };
        self.predicated_off.before.retain(|set| {
            let place = written.iter().position(|name| *name == set.register);
            match place {
                Some(place) if outcome == LeftOut::Zero && sets(set) => {
                    written.remove(place);
                    false
                }
                _ => true,
            }
        });
        self.no_result_is_set(errors);
        self.predicated_off.set = Some((verdict, written, outcome));
    }

    /// Check code may set a register of the program only for an instruction that
    /// writes it and may be skipped.
    pub(super) fn no_result_is_set(&mut self, errors: &mut Errors<'_>) {
        for set in self.predicated_off.before.drain(..) {
            let message = format!(
                "`{}` is set, but not as the result of an instruction that is skipped",
                set.register
            );
            errors.at(set.span, message);
        }
    }

    /// What the last instruction was to set must be set by now.
    pub(super) fn must_be_set(&mut self, errors: &mut Errors<'_>, span: ptx::Span) {
        if let Some((_, written, _)) = self.predicated_off.set.take()
            && let Some(register) = written.first()
        {
            errors.at(
                span,
                format!("`{register}` has no value where the instruction before this is left out"),
            );
        }
    }
}
