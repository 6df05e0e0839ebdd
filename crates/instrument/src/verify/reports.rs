//! Verifies the handling of failed checks: no failure is recorded at the start,
//! a thread writes its record at every exit and before every call that may end
//! the kernel, unless it has written it, and stops or traps only follow the
//! record; at each open loop, threads that have failed a check count, and end.

use super::Errors;
use super::checks::{Input, State, Text};
use super::roots::under;
use super::written::{
    RecordFacts, leave, possible, reads, record_and_go_on, record_unless_outside, round,
    trap_unless_unharmed, word,
};
use crate::protocol::register::{
    ADDRESS, OTHER, OUTSIDE, RECORD_BASE, RECORD_SIZE, REPORTED, ROUNDS, SITE, UNHARMED,
};
use crate::protocol::{LABEL_PREFIX, LEAVE};
use analysis::{first_store, open_loops};
use ptx::{Instruction, Mnemonic, Span};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// What a record must find of an object in a space of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needed {
    /// Its number, which the site has.
    pub(super) object: usize,
    /// The register with its base; none if the check keeps that.
    pub(super) base: Option<Text>,
    /// The launch has its size.
    pub(super) is_dynamic: bool,
}

/// What is known of records.
#[derive(Default)]
pub(super) struct Reports {
    /// Registers of the record that are zero from the start.
    cleared: u32,
    /// The instructions before which a thread must write its record, as what
    /// they belong to may end the kernel.
    may_end_in: FxHashSet<u32>,
    /// The first instructions of open loops.
    open_loops: FxHashSet<u32>,
    /// A round was counted here.
    counted: bool,
    /// Where open loops begin without that.
    uncounted: Vec<Span>,
    /// Some rounds are counted.
    has_rounds: bool,
    /// There is code for threads that leave open loops.
    has_leave: bool,
    /// A record is written here, and the thread notes that.
    written: bool,
    /// `OTHER` is this verdict, but not that of a null pointer where another
    /// check has failed before.
    pub(super) unless_null: Option<Text>,
    /// Where the kernel may end without a record.
    unwritten: Vec<Span>,
    /// Some check may fail.
    pub(super) has_checks: bool,
    /// A record is left here, under the guard of the next instruction.
    left: Option<Text>,
    /// Where threads leave without one.
    missing: Vec<Span>,
    /// Control can fall out of what was read so far.
    falls_out: bool,
    /// Whether records have the bounds that the address was checked against.
    says_bounds: Option<bool>,
    /// What they find of objects in spaces of their own: the registers with the bases, and
    /// whether that also is the size of the launch.
    finds: Option<Option<(Vec<Text>, bool)>>,
    /// What they must find, for some check.
    pub(super) must_find: BTreeSet<Needed>,
    /// Checks whose bounds the host does not know.
    pub(super) needs_bounds: bool,
}

impl Reports {
    /// Notes what a record says. Whether all others say the same.
    fn says(&mut self, facts: RecordFacts<'_>) -> bool {
        let found = facts.in_space.map(|found| {
            let bases = found.bases.iter().filter(|base| !base.is_empty());
            let bases: Vec<Text> = bases.map(|base| (*base).to_owned()).collect();
            (bases, found.is_dynamic)
        });
        *self.says_bounds.get_or_insert(facts.has_bounds) == facts.has_bounds
            && *self.finds.get_or_insert_with(|| found.clone()) == found
    }

    /// Whether records find what some check needs.
    fn finds(&self, needed: &Needed) -> bool {
        let found = self.finds.as_ref().and_then(Option::as_ref);
        found.is_some_and(|(bases, has_size)| {
            let base = match &needed.base {
                Some(base) => bases.get(needed.object) == Some(base),
                None => bases.is_empty(),
            };
            base && (*has_size || !needed.is_dynamic)
        })
    }
}

impl RecordFacts<'_> {
    fn of(input: &Input<'_, '_, '_>) -> RecordFacts<'static> {
        RecordFacts {
            has_bounds: false,
            in_space: None,
            has_launch: input.launch.is_some(),
            tag: input.tag,
            releases: input.releases,
            has_parameter_window: input.has_parameter_window,
        }
    }
}

impl State {
    /// Reads code about records; where it ends.
    pub(super) fn report_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        if self.roots.is_head {
            let cleared = [
                format!("mov.u32 {SITE}, 0;"),
                format!("mov.b64 {ADDRESS}, 0;"),
                format!("mov.b64 {RECORD_BASE}, 0;"),
                format!("mov.b64 {RECORD_SIZE}, 0;"),
                format!("mov.u32 {REPORTED}, 0;"),
                format!("mov.u32 {ROUNDS}, 0;"),
            ];
            for (bit, expected) in cleared.iter().enumerate() {
                if let Some(end) = reads(text, at, expected)
                    && self.reports.cleared & 1 << bit == 0
                {
                    self.reports.cleared |= 1 << bit;
                    return Some(end);
                }
            }
        }
        let first = word(text, at);
        if first == "setp.ne.s32"
            && let Some(end) = reads(text, at, round())
        {
            self.verdicts.remove(OTHER);
            self.reports.counted = true;
            self.reports.has_rounds = true;
            return Some(end);
        }
        if first.trim_end_matches(':') == LEAVE || first == "ret;" {
            return self.leave_code(at, input);
        }
        if first == "setp.ge.u64" {
            return self.unless_null_code(at, input);
        }
        if first == "setp.eq.s32" || first == "setp.eq.or.s32" {
            return self.record_code(at, input);
        }
        None
    }

    /// Code where threads leave open loops: no other comes to it from above.
    fn leave_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let at = match reads(text, at, "ret;") {
            // (Those that fall out have left their records.)
            Some(after) if self.reports.left.as_deref() == Some("") => after,
            None if !self.reports.falls_out => at,
            _ => return None,
        };
        let after = reads(text, at, format_args!("{LEAVE}:"))?;
        // Its label stands behind the record, with a number that nothing else has.
        let rest = text.get(after as usize..)?;
        let (_, rest) = rest.split_once(&format!("{LABEL_PREFIX}done"))?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let number: u32 = digits.parse().ok()?;
        for facts in possible(text, after, RecordFacts::of(input)) {
            if let Some(end) = reads(text, at, leave(number, facts)) {
                let had_one = std::mem::replace(&mut self.reports.has_leave, true);
                let same = self.reports.says(facts);
                self.verdicts.clear();
                self.reports.falls_out = false;
                return (!had_one && same).then_some(end);
            }
        }
        None
    }

    /// Code that takes null pointers out of a verdict where another check has
    /// failed before: its record stays.
    pub(super) fn unless_null_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let after = reads(text, at, format_args!("setp.ge.u64 {OTHER},"))?;
        let pointer = word(text, after).trim_end_matches(',');
        let not_null = format!("{pointer}, 4096; setp.eq.or.s32 {OTHER}, {SITE}, 0, {OTHER};");
        let after = reads(text, after, &not_null)?;
        let same = format!("setp.eq.or.s64 {OTHER}, {ADDRESS}, {pointer}, {OTHER};");
        let after = reads(text, after, &same).unwrap_or(after);
        let after = reads(text, after, format_args!("and.pred {OTHER}, {OTHER},"))?;
        let verdict = word(text, after).trim_end_matches(';');
        let known = self.verdicts.get(verdict)?;
        if known.distance.pointer != self.resolve(pointer) {
            return None;
        }
        let end = reads(text, after, format_args!("{verdict};"))?;
        self.reports.unless_null = Some(verdict.to_owned());
        Some(end)
    }

    /// Code that leaves a record, if there is one.
    fn record_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let reported = self.reported();
        let compared = |register: &str| match register {
            UNHARMED => format!("setp.eq.s32 {register}, {SITE}, 0;"),
            _ => format!("setp.eq.s32 {register}, {SITE}, {reported};"),
        };
        let under_guard = format!("setp.eq.or.s32 {OUTSIDE}, {SITE}, {reported},");
        let (after, leaves_under) = if let Some(after) = reads(text, at, compared(OUTSIDE)) {
            (after, Some(Text::new()))
        } else if let Some(after) = reads(text, at, &under_guard) {
            let guard = word(text, after).trim_end_matches(';');
            let under = match guard.strip_prefix('!') {
                Some(register) => format!("@{register}"),
                None => format!("@!{guard}"),
            };
            (reads(text, after, format_args!("{guard};"))?, Some(under))
        } else {
            (reads(text, at, compared(UNHARMED))?, None)
        };
        let unless = leaves_under.as_ref().map_or(UNHARMED, |_| OUTSIDE);
        let label =
            word(text, reads(text, after, format_args!("@{unless} bra"))?).trim_end_matches(';');
        let number: u32 = label
            .strip_prefix(LABEL_PREFIX)?
            .strip_prefix("done")?
            .parse()
            .ok()?;
        let record_at = reads(text, after, format_args!("@{unless} bra {label};"))?;
        for facts in possible(text, record_at, RecordFacts::of(input)) {
            let goes_on = (leaves_under.as_deref() == Some("") && reported == REPORTED)
                .then(|| reads(text, after, record_and_go_on(number, facts)))
                .flatten();
            let expected = match leaves_under {
                Some(_) => record_unless_outside(number, facts),
                None => trap_unless_unharmed(number, facts),
            };
            if let Some(end) = goes_on.or_else(|| reads(text, after, &expected)) {
                if !self.reports.says(facts) {
                    return None;
                }
                if leaves_under.is_some() {
                    // Its predicate is no verdict any more.
                    self.verdicts.remove(OUTSIDE);
                }
                match leaves_under {
                    _ if goes_on.is_some() => self.reports.written = true,
                    Some(guard) => self.reports.left = Some(guard),
                    None => {}
                }
                return Some(end);
            }
        }
        None
    }

    /// What the site of a record is that the thread need not write: none, or the
    /// last that it has written.
    fn reported(&self) -> &'static str {
        match self.is_declared(REPORTED) {
            true => REPORTED,
            false => "0",
        }
    }

    /// Finds where records must be written although the thread may go on.
    pub(super) fn find_endings(&mut self, input: &Input<'_, '_, '_>) {
        let instructions = input.analysis.code.instructions.iter().enumerate();
        let ends = instructions.filter(|(_, i)| input.endings.may_end_in(i.instruction));
        self.reports.may_end_in = ends
            .map(|(index, _)| first_store(input.analysis, index) as u32)
            .collect();
        self.reports.open_loops = open_loops(input.analysis).into_iter().collect();
    }

    /// One of the program's instructions is next: a thread may leave there.
    pub(super) fn may_leave(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
    ) {
        let left = self.reports.left.take();
        let written = std::mem::take(&mut self.reports.written);
        let index = input.index.get(&old.span.start).map(|&index| index as u32);
        let counted = std::mem::take(&mut self.reports.counted);
        if !counted && index.is_none_or(|index| self.reports.open_loops.contains(&index)) {
            self.reports.uncounted.push(new.span);
        }
        let may_end = index.is_none_or(|index| self.reports.may_end_in.contains(&index));
        if may_end && !written {
            self.reports.unwritten.push(new.span);
        }
        let mnemonic = old.opcode.mnemonic();
        if matches!(mnemonic, Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap)
            && left != Some(under(old))
        {
            self.reports.missing.push(new.span);
        }
        let is_end = matches!(
            mnemonic,
            Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap | Mnemonic::Bra | Mnemonic::Brx
        );
        self.reports.falls_out = !(is_end && old.guard.is_none());
    }

    /// A label of the program: what is above it may not be executed.
    pub(super) fn block_begins(&mut self) {
        self.reports.left = None;
        self.reports.written = false;
        self.reports.counted = false;
    }

    /// If there are checks, their records are left.
    pub(super) fn all_reported(&mut self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        let says_bounds = self.reports.says_bounds.unwrap_or(false);
        let cleared = if says_bounds { 0b1111 } else { 0b0011 };
        let cleared = cleared | u32::from(self.is_declared(REPORTED)) << 4;
        let cleared = cleared | u32::from(self.is_declared(ROUNDS)) << 5;
        if self.reports.has_rounds != self.reports.has_leave {
            errors.at(input.span, "rounds of loops are counted for nothing");
        }
        if self.keeps_records() && self.reports.cleared & cleared != cleared {
            errors.at(input.span, "a record may be left although no check failed");
        }
        if !self.reports.has_checks {
            return;
        }
        if self.reports.falls_out && self.reports.left.as_deref() != Some("") {
            errors.at(
                input.span,
                "a thread leaves at the end of the body without its record",
            );
        }
        for &span in &self.reports.missing {
            errors.at(span, "a thread leaves without its record");
        }
        for &span in &self.reports.unwritten {
            errors.at(span, "the kernel may end here before a record is written");
        }
        // (A thread that traps goes round no loop.)
        if !self.is_declared(UNHARMED) {
            for &span in &self.reports.uncounted {
                errors.at(span, "a thread may wait here for ever, and not count it");
            }
        }
        let must_find = &self.reports.must_find;
        if !must_find.iter().all(|needed| self.reports.finds(needed)) {
            errors.at(
                input.span,
                "records do not find the object that the address was checked against",
            );
        }
        if self.reports.needs_bounds && !says_bounds {
            errors.at(
                input.span,
                "records do not say what the address was checked against",
            );
        }
    }
}
