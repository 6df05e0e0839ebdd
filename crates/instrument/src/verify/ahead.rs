//! Loops with quick copies: the checks before them, and the copies' accesses without
//! checks (`crate::ahead`).
//!
//! A copy has the statements of its loop, in order, with labels of its own. It comes
//! directly before the loop, behind the checks, and ends with a branch behind the loop.
//! The text that computes passes and addresses must be that of `crate::ahead`; what is
//! compared with what is read here. An access of the copy has no check only if its
//! address, all its bytes, and its bounds were compared in the first pass and in the
//! last.

use super::Errors;
use super::accesses::{Duty, Subject};
use super::alignment::Tested;
use super::checks::{Input, State, Text, is_shared_limit, name};
use super::extents::Extent;
use super::verdicts::{Distance, Verdict};
use super::written::{call_of_lookup, number, operand, reads, word};
use crate::ahead::{Ahead, Counted, LARGEST_BUFFER, Value, label};
use crate::protocol::LABEL_PREFIX;
use crate::protocol::register::{LOW_BITS, OFFSET, POISONED, SCRATCH, SLOW, WEAK_BASE, WEAK_SIZE};
use analysis::ValueId;
use ptx::{Instruction, Label, Mnemonic, OperandKind, Span};
use rustc_hash::FxHashSet;

/// The piece of a body before another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Previous {
    /// The program's instruction with this number.
    Program(usize),
    /// The checks before the loop that begins with this instruction.
    Compared(usize),
    /// Its quick copy.
    Copied(usize),
    #[default]
    Other,
}

/// What was compared before a loop.
#[derive(Clone)]
struct Compared {
    address: ValueId,
    verdict: Verdict,
}

/// What is known of loops with quick copies.
#[derive(Default)]
pub(super) struct Loops {
    /// The piece before this one.
    pub(super) previous: Previous,
    /// What was compared before the loop that comes next.
    compared: Vec<Compared>,
    /// The loop whose quick copy is read, and the sites before it.
    copy: Option<(usize, u32)>,
    /// Loops that were begun, those that can be gone to from before their copies, and those
    /// whose end was seen.
    begun: FxHashSet<usize>,
    slow: FxHashSet<usize>,
    ended: FxHashSet<usize>,
    /// The program's next instruction.
    pub(super) next: usize,
}

/// The buffer that comparisons with looked up bounds are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Buffer {
    /// It may have poisoned bytes.
    Unknown,
    /// It has none, but nothing is looked up yet.
    NotPoisoned,
    /// It was looked up, or bounds are exact.
    Found,
}

impl Loops {
    /// Whether the quick copy of a loop is read.
    pub(super) fn is_in_copy(&self) -> bool {
        self.copy.is_some()
    }
}

fn counted<'x, 'a>(input: &'x Input<'_, '_, 'a>, first: usize) -> Option<&'x Counted<'a>> {
    input.counted.iter().find(|counted| counted.first == first)
}

/// Reads a lookup of an address plus a constant; the constant, and where the lookup ends.
/// Comparisons behind it are with the bounds of the buffer that it finds.
fn looked_up(text: &str, at: u32, first: &str) -> Option<(i64, u32)> {
    let (mut from, mut low, mut probe) = (at, 0, first);
    if let Some(after) = reads(text, from, format_args!("add.s64 {OFFSET}, {first},")) {
        low = operand(text, after).parse().ok()?;
        from = reads(text, after, format_args!("{low};"))?;
        probe = OFFSET;
    }
    let from = reads(text, from, call_of_lookup(probe))?;
    let is_buffer = format!("setp.gt.or.u64 {SLOW}, {WEAK_SIZE}, {LARGEST_BUFFER}, {SLOW};");
    Some((low, reads(text, from, is_buffer)?))
}

impl State {
    /// Reads the checks before a loop; where they end.
    pub(super) fn ahead_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let name = word(text, at).strip_suffix(':')?;
        let first = number(name, &format!("{LABEL_PREFIX}ahead"))? as usize;
        let counted = counted(input, first)?;
        if self.loops.is_in_copy() || self.loops.next != first || !self.loops.begun.insert(first) {
            return None;
        }
        let mut ahead = Ahead::of(input.analysis, counted);
        let mut head = String::new();
        ahead.begin(&mut head)?;
        let slow = format!("@{SLOW} bra {};", counted.label("slow"));
        let mut from = reads(text, at, format_args!("{name}: {head}"))?;
        let mut found = match input.shadow {
            Some(_) => Buffer::Unknown,
            None => Buffer::Found,
        };
        let poison = format!("setp.ne.or.s32 {SLOW}, {POISONED}, 0, {SLOW};");
        if input.shadow.is_some()
            && self.roots.is_set(POISONED)
            && let Some(after) = reads(text, from, poison)
        {
            (found, from) = (Buffer::NotPoisoned, after);
        }
        self.loops.compared.clear();
        loop {
            if let Some(end) = reads(text, from, &slow) {
                self.loops.previous = Previous::Compared(first);
                return Some(end);
            }
            let (compared, end) = self.compared((&mut ahead, &mut found), from, input)?;
            self.loops.compared.push(compared);
            from = end;
        }
    }

    /// Reads the comparisons of one address of the loop.
    fn compared(
        &mut self,
        (ahead, buffer): (&mut Ahead<'_, '_, '_>, &mut Buffer),
        from: u32,
        input: &Input<'_, '_, '_>,
    ) -> Option<(Compared, u32)> {
        let code = &input.analysis.code;
        let counted = ahead.counted();
        let mut tried = FxHashSet::default();
        for index in counted.first..counted.branch {
            let accesses = code.info(index).map_or(&[][..], |info| &info.accesses);
            for access in accesses {
                let Some(reference) = code.address_of(index, access.operand) else {
                    continue;
                };
                if !tried.insert(reference.value) {
                    continue;
                }
                let mut aside = ahead.clone();
                let mut head = String::new();
                let Some(value) = aside.operand(index, access.operand, &mut head) else {
                    continue;
                };
                let Some(mut after) = reads(input.new, from, head) else {
                    continue;
                };
                let found = match *buffer {
                    Buffer::Unknown => None,
                    _ if input.shadow.is_none() => None,
                    _ => looked_up(input.new, after, &value.first),
                };
                after = found.map_or(after, |(_, end)| end);
                let offset = format!("sub.s64 {OFFSET}, {},", value.first);
                let Some(after) = reads(input.new, after, offset) else {
                    continue;
                };
                let instruction = code.instructions[index].instruction;
                let pointer = match &instruction.operands.get(access.operand)?.kind {
                    OperandKind::Address(address) => self.resolve(address.base?),
                    _ => return None,
                };
                let (verdict, end) = self.comparisons((pointer, &value), after, input.new)?;
                if found.is_some_and(|(low, _)| low != verdict.distance.low) {
                    return None;
                }
                let address = reference.value;
                if found.is_some() {
                    *buffer = Buffer::Found;
                }
                let pair = (verdict.distance.base.as_str(), verdict.size.as_str());
                if pair == (WEAK_BASE, WEAK_SIZE) && *buffer != Buffer::Found {
                    return None;
                }
                *ahead = aside;
                return Some((Compared { address, verdict }, end));
            }
        }
        None
    }

    /// Whether bounds that an access is compared with are those of a live buffer, and what
    /// lies there is addressable: of one that was looked up, or of a pointer parameter's.
    fn are_of_a_buffer(&mut self, verdict: &Verdict, input: &Input<'_, '_, '_>) -> bool {
        let base = verdict.distance.base.as_str();
        if (base, verdict.size.as_str()) == (WEAK_BASE, WEAK_SIZE) {
            return true;
        }
        let limit = verdict.limit.as_ref().unwrap_or(&verdict.size).clone();
        self.less_of((base, &limit), input).is_some()
    }

    /// Reads what an offset is compared with, from its base on.
    fn comparisons(
        &self,
        (pointer, value): (Text, &Value),
        at: u32,
        text: &str,
    ) -> Option<(Verdict, u32)> {
        let base = operand(text, at);
        let mut from = reads(text, at, format_args!("{base};"))?;
        let mut low = 0;
        if let Some(after) = reads(text, from, format_args!("add.s64 {OFFSET}, {OFFSET},"))
            && let Ok(offset) = operand(text, after).parse::<i64>()
        {
            low = offset;
            from = reads(text, after, format_args!("{low};"))?;
        }
        let mut reduced = None;
        if let Some(after) = reads(text, from, format_args!("max.u64 {SCRATCH},")) {
            let size = operand(text, after).to_owned();
            let after = reads(text, after, format_args!("{size},"))?;
            let less: u64 = operand(text, after).parse().ok()?;
            let rest = format!("{less}; sub.s64 {SCRATCH}, {SCRATCH}, {less};");
            from = reads(text, after, rest)?;
            reduced = Some((size, less));
        }
        let after = reads(text, from, format_args!("setp.ge.or.u64 {SLOW}, {OFFSET},"))?;
        let limit = operand(text, after).to_owned();
        from = reads(text, after, format_args!("{limit}, {SLOW};"))?;
        let (size, less) = match (limit == SCRATCH, reduced) {
            (true, reduced) => reduced?,
            (false, Some(_)) => return None,
            (false, None) => match self.limits.get(&limit) {
                Some(known) if !self.half.contains(&limit) => known.clone(),
                _ => (limit.clone(), 0),
            },
        };
        let mut tested = None;
        if let Some(mut after) = reads(
            text,
            from,
            format_args!("cvt.u32.u64 {LOW_BITS}, {};", value.first),
        ) {
            let mut at = 0;
            if let Some(adds) = reads(text, after, format_args!("add.s32 {LOW_BITS}, {LOW_BITS},"))
            {
                at = operand(text, adds).parse().ok()?;
                after = reads(text, adds, format_args!("{at};"))?;
            }
            let after = reads(text, after, format_args!("and.b32 {LOW_BITS}, {LOW_BITS},"))?;
            let mask: u64 = operand(text, after).parse().ok()?;
            let rest = format!("{mask}; setp.ne.or.u32 {SLOW}, {LOW_BITS}, 0, {SLOW};");
            from = reads(text, after, rest)?;
            let bytes = mask.checked_add(1).filter(|b| b.is_power_of_two())?;
            // The other passes are as well aligned as the first one.
            let is_step = |each: i64| each.unsigned_abs().is_multiple_of(bytes);
            let keeps = value
                .way
                .as_ref()
                .is_none_or(|way| way.each.is_some_and(is_step));
            tested = keeps.then(|| Tested::of(pointer.clone(), at, bytes));
        }
        if let Some(way) = &value.way {
            let last = format!(
                "add.s64 {OFFSET}, {OFFSET}, {}; setp.ge.or.u64 {SLOW}, {OFFSET}, {limit}, {SLOW};",
                way.register
            );
            from = reads(text, from, last)?;
        }
        let distance = Distance {
            pointer,
            base: base.to_owned(),
            low,
            ..Distance::default()
        };
        let verdict = Verdict {
            limit: is_shared_limit(&limit).then_some(limit),
            tested,
            ..Verdict::of(distance, size, less)
        };
        Some((verdict, from))
    }

    /// The quick copy of a loop begins.
    pub(super) fn copy_begins(
        &mut self,
        first: usize,
        span: Span,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        if self.loops.previous != Previous::Compared(first) {
            errors.at(span, "a copy of a loop without checks before it");
        }
        self.roots.is_head = false;
        self.joins(input, errors, span);
        self.loops.copy = Some((first, self.sites));
        self.loops.previous = Previous::Other;
    }

    /// It ends.
    pub(super) fn copy_ends(
        &mut self,
        span: Span,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some((first, sites)) = self.loops.copy.take() else {
            return errors.at(span, "the end of no copy");
        };
        let is_whole =
            counted(input, first).is_some_and(|counted| self.loops.next == counted.branch + 1);
        if !is_whole {
            errors.at(span, "a copy of a loop ends before or behind it");
        }
        self.joins(input, errors, span);
        (self.sites, self.loops.next) = (sites, first);
        self.loops.previous = Previous::Copied(first);
    }

    /// A branch of a quick copy goes where that of the loop does, in the copy.
    pub(super) fn branch_of_copy(
        &self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some((first, _)) = self.loops.copy else {
            return;
        };
        if old.opcode.mnemonic() != Mnemonic::Bra {
            return;
        }
        let expected = name(old, 0).map(|target| {
            let own = counted(input, first).and_then(|counted| counted.in_copy(target));
            own.unwrap_or_else(|| target.to_owned())
        });
        if expected.as_deref() != name(new, 0) {
            errors.at(new.span, "a branch of a loop's copy goes elsewhere");
        }
    }

    /// A label of check code: that of a loop itself, or behind it. Whether it is one.
    pub(super) fn loop_label(
        &mut self,
        name: &Label<'_>,
        before: Previous,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) -> bool {
        let is_in = |what: &str| number(name.name, &format!("{LABEL_PREFIX}{what}"));
        if let Some(first) = is_in("slow") {
            let first = first as usize;
            let is_right = before == Previous::Copied(first) && name.name == label("slow", first);
            return is_right && self.loops.slow.insert(first);
        }
        let Some(first) = is_in("out").map(|first| first as usize) else {
            return false;
        };
        let ends = counted(input, first).map(|counted| counted.branch);
        let is_right = ends.is_some_and(|branch| before == Previous::Program(branch))
            && !self.loops.is_in_copy()
            && self.loops.begun.contains(&first)
            && self.loops.ended.insert(first);
        self.joins(input, errors, name.span);
        is_right
    }

    /// Whether an access of a quick copy needs no check, because it was checked before
    /// the loop.
    pub(super) fn is_checked_ahead(
        &mut self,
        subject: &Subject<'_, '_>,
        duty: &Duty,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let Duty::Address(owed) = duty else {
            return false;
        };
        if !self.loops.is_in_copy() || self.has_verdict(subject, duty, input) {
            return false;
        }
        let Some(reference) = input
            .analysis
            .code
            .address_of(subject.index, subject.access.operand)
        else {
            return false;
        };
        let all = std::mem::take(&mut self.loops.compared);
        let offset = subject.address().map_or(0, |(_, offset)| offset);
        let is_checked = all.iter().any(|compared| {
            let verdict = &compared.verdict;
            let declared = self.size_of(verdict, owed.extent, input);
            let is_held = match owed.extent {
                Extent::Shadow => self.are_of_a_buffer(verdict, input),
                _ => {
                    let at = (offset, subject.index);
                    self.is_checked_against(verdict, *owed, input)
                        && self.is_aligned(verdict, at, subject.access, input)
                }
            };
            compared.address == reference.value
                && subject.access.lanes == verdict.lanes
                && is_held
                && self.covers_bytes(verdict, subject, declared, input)
        });
        self.loops.compared = all;
        is_checked
    }

    /// All loops that were begun must be there, and have an end.
    pub(super) fn all_loops_end(&self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        let Loops {
            begun, slow, ended, ..
        } = &self.loops;
        if begun != ended || begun != slow {
            errors.at(input.span, "a loop with a copy has no beginning or no end");
        }
    }
}
