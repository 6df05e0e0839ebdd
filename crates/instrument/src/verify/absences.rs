//! Follows what takes the program's instructions out where a check fails, and
//! what stands in their place.

use super::Errors;
use super::checks::{State, Text, integer, name};
use super::facts::{LeftOut, completion, left_out};
use super::written::number;
use crate::protocol::REGISTER_PREFIX;
use crate::protocol::family::GO;
use crate::protocol::register::{GO_ON, OTHER, STOP};
use ptx::table::{Predication, classify};
use ptx::{Instruction, OperandKind};
use rustc_hash::FxHashMap;

/// The instruction that tells a barrier that bytes are there.
const COMPLETE: &str = "mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64";

/// What is known of the predicates that take instructions out.
#[derive(Default)]
pub(super) struct Absences {
    /// `%__rf_gN`, `%__rf_go`: the program's guard and the verdict that it is
    /// made of; whether the guard is negated.
    go: FxHashMap<Text, (Text, bool, Text)>,
    /// The verdict that the last of the program's instructions was skipped
    /// by, the registers that it writes, and what they must be set to.
    set: Option<(Text, Vec<Text>, LeftOut)>,
    stop: Option<Stop>,
    /// A barrier is told of bytes: base, offset, bytes.
    completes: Option<Told>,
    /// The verdict on the barrier that the next instruction tells, if it needs
    /// one.
    barrier: Option<Text>,
}

/// A barrier is told of bytes.
struct Told {
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
            // Where the guard does not hold, nobody has voted.
            Some(under) => under.as_ref() == guard && self.limits.iter().eq(guard),
        }
    }
}

/// Whether all lanes of a warp must execute an instruction together.
fn is_collective(instruction: &Instruction<'_>) -> bool {
    classify(instruction).is_some_and(|info| info.predication == Predication::Warp)
}

impl Absences {
    /// The access of an instruction's barrier goes by a verdict.
    pub(super) fn of_barrier(&mut self, verdict: &str) {
        self.barrier = Some(verdict.to_owned());
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
    pub(super) fn absence_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
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
            self.absences.go.retain(|_, go| own(go));
        }
        match (instruction.opcode.text, first) {
            ("mov.pred", STOP) => self.absences.stop = stop(vec![one], None),
            ("or.pred", STOP) if one == STOP => {
                if let Some(stop) = &mut self.absences.stop {
                    stop.verdicts.push(other);
                }
            }
            ("or.pred", STOP) => self.absences.stop = stop(vec![one, other], None),
            ("vote.sync.any.pred", STOP) => {
                let everyone = integer(instruction, 2) == Some(0xffff_ffff);
                let guard = self.guard_of(instruction);
                self.absences.stop = stop(vec![one], Some(guard)).filter(|_| everyone);
            }
            ("and.pred", STOP) if one == STOP => {
                let limit = self
                    .negated
                    .get(&other)
                    .map_or(other, |positive| format!("!{positive}"));
                if let Some(stop) = &mut self.absences.stop {
                    stop.limits.push(limit);
                }
            }
            (COMPLETE, _) => return self.completes(instruction),
            (_, STOP) => self.absences.stop = None,
            ("xor.pred" | "or.pred", _)
                if instruction.guard.is_none()
                    && (number(first, GO).is_some() || [GO_ON, OTHER].contains(&first)) =>
            {
                let negated = instruction.opcode.text == "or.pred";
                self.absences
                    .go
                    .insert(first.to_owned(), (one, negated, other));
            }
            _ => return false,
        }
        true
    }

    /// A barrier that is told of bytes: where the next instruction does not
    /// happen, and perhaps not where it is the barrier that is outside.
    fn completes(&mut self, instruction: &Instruction<'_>) -> bool {
        let Some(Stop { verdicts, .. }) = &self.absences.stop else {
            return false;
        };
        let (Some(guard), Some(OperandKind::Address(address))) = (
            instruction.guard.filter(|guard| !guard.negated),
            instruction.operands.first().map(|o| &o.kind),
        ) else {
            return false;
        };
        let unless = match (guard.register, self.absences.go.get(guard.register)) {
            (STOP, _) => None,
            (_, Some((from, false, verdict))) if from == STOP && verdicts.contains(verdict) => {
                Some(verdict.clone())
            }
            _ => return false,
        };
        self.absences.completes = Some(Told {
            base: address.base.unwrap_or("").to_owned(),
            offset: address.offset,
            bytes: self.text(instruction, 1),
            unless,
        });
        true
    }

    /// The verdicts that take an instruction out, exactly where it would have
    /// happened and one of them holds.
    pub(super) fn takes_out(&self, old: &Instruction<'_>, new: &Instruction<'_>) -> Vec<Text> {
        let Some(verdict) = self.verdict_of(old, new) else {
            return Vec::new();
        };
        if verdict != STOP {
            let fits = !is_collective(old);
            return fits.then_some(verdict).into_iter().collect();
        }
        let guard = self.guard_of(old);
        match &self.absences.stop {
            Some(stop) if stop.fits(guard.as_ref(), old) => stop.verdicts.clone(),
            _ => Vec::new(),
        }
    }

    /// The predicate that stands in the place of an instruction's guard, if it
    /// takes the instruction out exactly where it and the guard say so.
    fn verdict_of(&self, old: &Instruction<'_>, new: &Instruction<'_>) -> Option<Text> {
        let guard = new.guard.as_ref()?;
        if !guard.register.starts_with(REGISTER_PREFIX) {
            return None;
        }
        match &old.guard {
            None => guard.negated.then(|| guard.register.to_owned()),
            Some(own) => {
                let (program, negated, verdict) = self.absences.go.get(guard.register)?;
                let same = *program == self.resolve(own.register)
                    && *negated == own.negated
                    && guard.negated == own.negated;
                same.then(|| verdict.clone())
            }
        }
    }

    /// Notes what the program's instruction was taken out by; what must stand
    /// in its place comes before and behind it.
    pub(super) fn taken_out(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        bytes: u8,
        errors: &mut Errors<'_>,
    ) {
        self.absences.set = None;
        let completes = self.absences.completes.take();
        let barrier = self.absences.barrier.take();
        let stop = self.absences.stop.take();
        let verdict = self.verdict_of(old, new);
        let stopped = stop.filter(|_| verdict.as_deref() == Some(STOP));
        let completion = completion(old);
        let told = match (&completes, &completion, &stopped) {
            (Some(told), Some(completion), Some(stop)) => {
                let ((base, offset), bytes) = (completion.barrier, &completion.bytes);
                told.base == base
                    && told.offset == offset
                    && (told.bytes == *bytes || told.bytes == self.resolve(bytes))
                    && told.unless == barrier
                    && barrier.iter().all(|name| stop.verdicts.contains(name))
            }
            (Some(_), ..) => false,
            // A barrier that is outside itself cannot be told.
            (None, Some(_), Some(stop)) => stop.verdicts.len() < 2,
            (None, ..) => true,
        };
        if !told {
            errors.at(
                new.span,
                "a barrier is not told of exactly the bytes of a copy that does not happen",
            );
        }
        let (Some(verdict), Some(outcome)) = (verdict, left_out(old)) else {
            return;
        };
        // Registers of other sizes have no zero that a move could give them.
        if outcome == LeftOut::Zero && !matches!(bytes, 2 | 4 | 8) {
            return;
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
        self.absences.set = Some((verdict, written, outcome));
    }

    /// What the last instruction was to set must be set by now.
    pub(super) fn must_be_set(&mut self, errors: &mut Errors<'_>, span: ptx::Span) {
        if let Some((_, written, _)) = self.absences.set.take()
            && let Some(register) = written.first()
        {
            errors.at(
                span,
                format!("`{register}` has no value where the instruction before this is left out"),
            );
        }
    }
}
