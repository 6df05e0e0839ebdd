//! Verdicts: the predicates that check code computes of an address, step by
//! step.

use super::alignment::Tested;
use super::blocks::{self, Blocks};
use super::checks::{State, Text, integer, is_shared_limit, name};
use super::indexed::Compared;
use super::lookups::Found;
use super::written::number;
use crate::protocol::family::{KEPT, REDIRECTED};
use crate::protocol::register::{
    ADDRESS, LANE, OFFSET, OTHER, OUTSIDE, RECORD_BASE, RECORD_SIZE, SCRATCH, SCRATCH2, SITE,
    SPACE_ADDRESS, SPACE_BASE, WEAK_BASE,
};
use crate::protocol::{IN_SPACE_SITE, LAST_SITE, OBJECT_SHIFT};
use model::layout::shadow::Encoding;
use ptx::Instruction;

/// How far a pointer is from a base.
#[derive(Clone, Debug, Default)]
pub(super) struct Distance {
    pub(super) pointer: Text,
    pub(super) base: Text,
    pub(super) low: i64,
    /// The space that the pointer was made a generic address of, if it was.
    pub(super) generic: Option<Text>,
}

/// Bytes that are counted at run time: `step` times an operand, shifted to the
/// right, and `last`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) operand: Text,
    pub(super) step: u64,
    pub(super) shift: u32,
    pub(super) last: u64,
}

/// The values that a failed check keeps for the record, beside its site.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// The address, and whether it is the one that was checked.
    pub(super) address: Option<Text>,
    pub(super) has_address: bool,
    pub(super) base: Option<Text>,
    pub(super) size: Option<Text>,
    /// It is of an object in a space of its own, with this number: the rest is found where
    /// the record is written.
    pub(super) in_space: Option<usize>,
    /// Whether address and base are kept as those of such objects are.
    pub(super) kept_in_space: [bool; 2],
    /// Registers of the record that other checks may have written since.
    overwritten: Vec<&'static str>,
    /// Those of them that still were when the site was kept.
    pub(super) is_of_others: Vec<&'static str>,
}

impl Record {
    /// Another check writes a register where it fails.
    fn overwrite(&mut self, register: &'static str) {
        self.overwritten.push(register);
    }

    /// The check itself writes a register.
    fn write(&mut self, register: &str) {
        self.overwritten.retain(|other| *other != register);
        match register {
            SITE => self.is_of_others.clone_from(&self.overwritten),
            _ => self.is_of_others.retain(|other| *other != register),
        }
    }
}

/// The requirements of all accesses that use one verdict.
#[derive(Clone, Debug)]
pub(super) struct Needs {
    /// The first byte and the end of the last, as offsets; none if they are
    /// counted.
    pub(super) bytes: Option<(i64, i64)>,
    /// The same of the verdict, with no end if it lets nothing pass.
    pub(super) covers: Option<(i64, Option<i64>)>,
    /// The greatest alignment, and that which the verdict sees to.
    pub(super) alignment: u64,
    pub(super) aligns: Option<u64>,
    /// The offset at which the greatest alignment is.
    pub(super) aligned_at: i64,
    /// See [`Verdict::blocks`].
    pub(super) blocks: Option<(Blocks, bool)>,
    pub(super) span: ptx::Span,
}

impl Needs {
    pub(super) fn are_met(&self, shadow: Option<Encoding>) -> bool {
        let bytes = match (self.bytes, self.covers) {
            (Some((low, end)), Some((from, to))) => low == from && to.is_none_or(|to| to == end),
            (bytes, covers) => bytes.is_none() && covers.is_none(),
        };
        let aligned = (self.alignment, self.aligned_at);
        let is_exact = match (shadow, self.blocks, self.bytes) {
            (Some(encoding), Some(blocks), Some(bytes)) => {
                blocks::is_exact(encoding, blocks, bytes, aligned)
            }
            _ => true,
        };
        bytes && is_exact && self.aligns.is_none_or(|aligns| aligns == self.alignment)
    }
}

/// A predicate: an address is outside.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) distance: Distance,
    /// Register or constant that bounds the distance, and its derivation: a
    /// size, minus so many bytes.
    pub(super) size: Text,
    pub(super) less: u64,
    /// The register that bounds the distance, if a root's limit does.
    pub(super) limit: Option<Text>,
    /// The address is also tested for being aligned.
    pub(super) tested: Option<Tested>,
    /// The bytes are counted at run time, once so many steps are made.
    pub(super) count: Option<(Count, u32)>,
    /// Guards that the verdict holds under: text with `!`.
    pub(super) guards: Vec<Text>,
    /// The site, once the record keeps it.
    pub(super) site: Option<u32>,
    /// The values that the record keeps beside it.
    pub(super) record: Record,
    /// Of so many lanes.
    pub(super) lanes: u32,
    /// An access uses it: it may not change any more.
    pub(super) is_sealed: bool,
    /// The result of looking up the address, if that is the base.
    pub(super) found: Option<Found>,
    /// The symbol that the pointer is the address of, if an instruction names it.
    pub(super) symbol: Option<Text>,
    /// How many blocks it is about, if shadow memory decides; and whether a byte
    /// that is alone in its block is looked up.
    pub(super) blocks: Option<(Blocks, bool)>,
    /// The index that was compared, until the address is known that has it.
    pub(super) compared: Option<Compared>,
    /// It only says that bytes are not in the buffer of a parameter, and is noted
    /// (`super::again`).
    pub(super) is_noted: bool,
    /// A number that is unique in the body.
    pub(super) serial: u32,
}

impl Verdict {
    /// That a distance is below a size, less so many bytes.
    pub(super) fn of(distance: Distance, size: Text, less: u64) -> Self {
        Verdict {
            distance,
            size,
            less,
            limit: None,
            tested: None,
            count: None,
            guards: Vec::new(),
            site: None,
            record: Record::default(),
            lanes: 32,
            is_sealed: false,
            found: None,
            symbol: None,
            blocks: None,
            compared: None,
            is_noted: false,
            serial: 0,
        }
    }

    /// Whether guards and lanes may limit it: the comparison is complete.
    fn is_compared(&self) -> bool {
        !self.is_sealed && self.count.as_ref().is_none_or(|(_, made)| *made == 3)
    }

    /// Whether a test of the alignment may be added: before anything limits it.
    pub(super) fn is_open(&self) -> bool {
        let counted = self.count.as_ref();
        !self.is_sealed
            && self.guards.is_empty()
            && self.lanes == 32
            && counted.is_none_or(|(_, made)| *made == 2)
    }

    /// A key that is unique in the body, with its site.
    pub(super) fn key(&self, site: u32) -> (u32, u32) {
        (self.serial, site)
    }
}

/// A register that holds an address, or that of a sink.
#[derive(Clone, Debug)]
pub(super) struct Redirect {
    pub(super) verdict: Verdict,
    pub(super) pointer: Text,
    pub(super) sink: u64,
}

impl State {
    /// The code that keeps a failed check's values for the record.
    pub(super) fn record_code_of(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let registers = [
            SITE,
            ADDRESS,
            RECORD_BASE,
            RECORD_SIZE,
            SPACE_ADDRESS,
            SPACE_BASE,
        ];
        let Some(register) = registers.into_iter().find(|register| *register == first) else {
            return false;
        };
        let Some(guard) = self.guard_of(instruction) else {
            return false;
        };
        let guard = match &self.reports.unless_null {
            Some(verdict) if guard == OTHER => verdict.clone(),
            Some(verdict) if guard == *verdict => return false,
            _ => guard,
        };
        let raw = self.text(instruction, 1);
        let value = self.copied(raw.clone());
        let site = integer(instruction, 1).and_then(|site| u32::try_from(site).ok());
        for (predicate, verdict) in &mut self.verdicts {
            if *predicate != guard {
                verdict.record.overwrite(register);
            }
        }
        let Some(verdict) = self.verdicts.get_mut(&guard) else {
            return self.strings.keeps(&guard, instruction, first, &raw);
        };
        verdict.is_sealed = true;
        verdict.record.write(register);
        match (instruction.opcode.text, first) {
            ("mov.u32", SITE) => {
                let kept = site.unwrap_or(0) >> OBJECT_SHIFT;
                let in_space = kept.checked_sub(IN_SPACE_SITE >> OBJECT_SHIFT);
                verdict.record.in_space = in_space.map(|object| object as usize);
                let site = site.map(|site| site & LAST_SITE);
                verdict.site = site.filter(|&site| site > 0 && (kept == 0 || in_space.is_some()));
                if verdict.site.is_none() {
                    return false;
                }
                self.unused_sites.extend(
                    verdict
                        .site
                        .map(|site| ((verdict.serial, site), instruction.span)),
                );
                self.unsited.remove(&guard);
            }
            ("mov.b64" | "cvt.u64.u32", ADDRESS) | ("mov.b32", SPACE_ADDRESS) => {
                verdict.record.has_address = value == verdict.distance.pointer;
                verdict.record.address = Some(value);
                verdict.record.kept_in_space[0] = first == SPACE_ADDRESS;
            }
            ("mov.b64" | "cvt.u64.u32", RECORD_BASE) | ("mov.b32", SPACE_BASE) => {
                verdict.record.base = Some(raw);
                verdict.record.kept_in_space[1] = first == SPACE_BASE;
            }
            ("mov.b64" | "cvt.u64.u32", RECORD_SIZE) => verdict.record.size = Some(raw),
            _ => return false,
        }
        true
    }

    /// Arithmetic on addresses and sizes.
    pub(super) fn arithmetic(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        if instruction.guard.is_some() {
            return false;
        }
        let repeats = name(instruction, 1) == Some(first);
        match (instruction.opcode.text, first) {
            ("mov.u64", _) if number(first, REDIRECTED).is_some() => {
                let Some(symbol) = name(instruction, 1) else {
                    return false;
                };
                self.symbols.insert(first.to_owned(), symbol.to_owned());
                self.distance = None;
                self.verdicts.retain(|_, v| v.distance.pointer != first);
                true
            }
            ("sub.s64", OFFSET) if name(instruction, 2) == Some(OFFSET) => {
                // The part of a size that is after the address.
                let size = self.constant(self.text(instruction, 1));
                self.distance = None;
                self.step(0, |verdict| verdict.size == size)
            }
            ("sub.s64", OFFSET) => {
                self.distance = Some(Distance {
                    pointer: self.text(instruction, 1),
                    base: self.text(instruction, 2),
                    low: 0,
                    generic: None,
                });
                true
            }
            ("add.s64", OFFSET) if repeats => match (&mut self.distance, integer(instruction, 2)) {
                (Some(distance), Some(low)) => {
                    distance.low = distance.low.wrapping_add(low);
                    true
                }
                _ => false,
            },
            ("mul.wide.u32", SCRATCH) => {
                let step = integer(instruction, 2).and_then(|step| u64::try_from(step).ok());
                self.count = step.map(|step| Count {
                    operand: self.text(instruction, 1),
                    step,
                    shift: 0,
                    last: 0,
                });
                self.forget_scratch(first)
            }
            ("cvt.u64.u32", SCRATCH) => {
                self.count = Some(Count {
                    operand: self.text(instruction, 1),
                    step: 1,
                    shift: 0,
                    last: 0,
                });
                self.forget_scratch(first)
            }
            ("shr.u64", SCRATCH) if repeats => match (&mut self.count, integer(instruction, 2)) {
                (Some(count), Some(shift @ 1..=3)) if (count.shift, count.last) == (0, 0) => {
                    count.shift = shift as u32;
                    true
                }
                _ => false,
            },
            ("add.s64", SCRATCH) if repeats => match (&mut self.count, integer(instruction, 2)) {
                (Some(count), Some(last)) => {
                    count.last = count.last.wrapping_add(last as u64);
                    true
                }
                _ => false,
            },
            ("cvt.u64.u32", SCRATCH2) => {
                let size = self.text(instruction, 1);
                self.hold(first, size);
                true
            }
            ("mov.b64", SCRATCH | SCRATCH2) => {
                self.count.take_if(|_| first == SCRATCH);
                let what = self.constant(self.text(instruction, 1));
                self.hold(first, what);
                true
            }
            ("max.u64", SCRATCH) => {
                self.count = None;
                self.limit(instruction);
                true
            }
            ("sub.s64", SCRATCH) => {
                self.limit(instruction);
                true
            }
            _ => false,
        }
    }

    fn forget_scratch(&mut self, register: &str) -> bool {
        self.constants.remove(register);
        self.limits.remove(register);
        true
    }

    /// The site of the access that is judged.
    pub(super) fn site_now(&self) -> u32 {
        self.sites_before + self.sites
    }

    /// Advances the verdict on bytes that are counted which made so many steps.
    fn step(&mut self, made: u32, is_it: impl Fn(&Verdict) -> bool) -> bool {
        let mut verdicts = self.verdicts.values_mut().filter(|v| !v.is_sealed);
        let verdict =
            verdicts.find(|v| v.count.as_ref().is_some_and(|(_, m)| *m == made) && is_it(v));
        match verdict.and_then(|verdict| verdict.count.as_mut()) {
            Some((_, made)) => {
                *made += 1;
                true
            }
            None => false,
        }
    }

    /// Comparisons that make verdicts.
    pub(super) fn comparison(&mut self, instruction: &Instruction<'_>, predicate: &str) -> bool {
        let is_verdict = predicate == OUTSIDE || number(predicate, KEPT).is_some();
        if instruction.guard.is_some() || !is_verdict {
            return false;
        }
        let of_offset = name(instruction, 1) == Some(OFFSET);
        let of_count = name(instruction, 1) == Some(SCRATCH);
        match instruction.opcode.text {
            "setp.ge.u64" | "setp.ge.and.u64" if of_offset => {
                let bound = self.text(instruction, 2);
                let (size, less) = match self.limits.get(&bound) {
                    Some(limit) if !self.half.contains(&bound) => limit.clone(),
                    _ => (self.constant(bound.clone()), 0),
                };
                let guarded = instruction.opcode.text == "setp.ge.and.u64";
                let guards = guarded.then(|| self.text(instruction, 3));
                self.begin(predicate, size, less, guards.into_iter().collect());
                if let Some(verdict) = self.verdicts.get_mut(predicate) {
                    verdict.limit = is_shared_limit(&bound).then_some(bound);
                }
                true
            }
            "setp.gt.u64" if of_offset => {
                let size = self.constant(self.text(instruction, 2));
                self.begin(predicate, size, 0, Vec::new());
                match (self.verdicts.get_mut(predicate), self.count.clone()) {
                    (Some(verdict), Some(count)) => verdict.count = Some((count, 0)),
                    _ => return false,
                }
                true
            }
            // More bytes than are left; but no bytes are never outside.
            "setp.gt.or.u64" if of_count && name(instruction, 3) == Some(predicate) => {
                let of_left = name(instruction, 2) == Some(OFFSET);
                of_left && self.step_of(predicate, 1)
            }
            "setp.ne.and.s64" if of_count && name(instruction, 3) == Some(predicate) => {
                integer(instruction, 2) == Some(0) && self.step_of(predicate, 2)
            }
            _ => false,
        }
    }

    fn step_of(&mut self, predicate: &str, made: u32) -> bool {
        let verdict = self.verdicts.get_mut(predicate).filter(|v| !v.is_sealed);
        match verdict.and_then(|v| v.count.as_mut()) {
            Some((_, own)) if *own == made => {
                *own += 1;
                true
            }
            _ => false,
        }
    }

    /// Verdicts of some lanes, and under guards.
    pub(super) fn lanes_and_guards(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        if instruction.guard.is_some() {
            return false;
        }
        match instruction.opcode.text {
            "setp.lt.and.u32" if name(instruction, 1) == Some(LANE) && self.roots.is_set(LANE) => {
                let lanes = integer(instruction, 2).and_then(|lanes| u32::try_from(lanes).ok());
                let same = self.text(instruction, 3) == first;
                let verdict = self.verdicts.get_mut(first).filter(|v| v.is_compared());
                match (verdict, lanes) {
                    (Some(verdict), Some(lanes)) if same => verdict.lanes = lanes,
                    _ => return false,
                }
                true
            }
            "not.pred" => {
                let positive = self.text(instruction, 1);
                self.negated.insert(first.to_owned(), positive);
                first == crate::protocol::register::OTHER
            }
            "and.pred" if name(instruction, 1) == Some(first) => {
                let other = self.text(instruction, 2);
                let negated = self.negated.get(&other);
                let guard = negated.map_or(other, |positive| format!("!{positive}"));
                match self.verdicts.get_mut(first).filter(|v| v.is_compared()) {
                    Some(verdict) => verdict.guards.push(guard),
                    None => return false,
                }
                true
            }
            _ => false,
        }
    }

    /// Selects an address or a sink.
    pub(super) fn selection(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        if instruction.opcode.text != "selp.b64"
            || instruction.guard.is_some()
            || number(first, REDIRECTED).is_none()
        {
            return false;
        }
        let predicate = self.text(instruction, 3);
        let pointer = self.text(instruction, 2);
        let (Some(verdict), Some(sink)) =
            (self.verdicts.get_mut(&predicate), integer(instruction, 1))
        else {
            return false;
        };
        verdict.is_sealed = true;
        let redirect = Redirect {
            verdict: verdict.clone(),
            pointer,
            sink: sink as u64,
        };
        // A twin keeps a site of its own.
        verdict.site = None;
        self.redirects.insert(first.to_owned(), redirect);
        true
    }

    /// Begins a verdict.
    pub(super) fn begin(&mut self, predicate: &str, size: Text, less: u64, guards: Vec<Text>) {
        self.verdicts.remove(predicate);
        self.predicated_off.remade(predicate);
        self.begun += 1;
        let Some(distance) = self.distance.clone() else {
            return;
        };
        let found = self.found.clone().filter(|_| distance.base == WEAK_BASE);
        let symbol = self.symbols.get(&distance.pointer);
        let symbol = symbol.or(self.windows.symbol(&distance.pointer)).cloned();
        let verdict = Verdict {
            guards,
            found,
            symbol,
            serial: self.begun,
            ..Verdict::of(distance, size, less)
        };
        self.unsited.insert(predicate.to_owned());
        self.verdicts.insert(predicate.to_owned(), verdict);
    }
}
