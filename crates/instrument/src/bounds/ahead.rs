//! Writes the quick copies of loops, and the checks before them (`crate::ahead`).
//!
//! A check leaves the loop with its whole group and that group's twins, as in a
//! residual copy. What stays is checked in the quick copy as in the loop.

use super::aligned::{Address, Aligned, or_misaligned};
use super::emit::Emit;
use super::pieces::lookup_in;
use super::plan::{Base, Group, Planned, Source};
use super::residual::with_twins;
use super::text::*;
use crate::ahead::{Ahead, Counted, LARGEST_BUFFER, Value, least_passes};
use crate::device_heap::may_free;
use crate::patch::{Patch, line, put};
use ptx::table::Extent;
use ptx::{Mnemonic, OperandKind};

/// A loop has a quick copy if at least one in so many of its checks is left out there.
const GAIN: usize = 3;

/// And if so many of its accesses have none: a few, in a loop that waits for memory anyway,
/// cost less than the registers that the copy takes.
const FEWEST: usize = 3;

/// The most checks before a loop.
const MOST: usize = 48;

/// A loop with a quick copy.
pub(super) struct Quick<'a> {
    counted: Counted<'a>,
    /// By group: it is checked before the loop.
    ahead: Vec<bool>,
    /// The code before the loop.
    text: String,
}

impl Quick<'_> {
    pub(super) fn begins_at(&self, index: usize) -> bool {
        self.counted.first == index
    }

    pub(super) fn ends_at(&self, index: usize) -> bool {
        self.counted.branch == index
    }

    /// What comes behind the loop.
    pub(super) fn end(&self, out: &mut String) {
        put(out, format_args!("\n{}:", self.counted.label("out")));
    }
}

impl<'a> Emit<'_, '_, 'a> {
    /// The loops that have quick copies, in text order.
    pub(super) fn quick_loops(&mut self, frees: bool) -> Vec<Quick<'a>> {
        if self.plan.accesses.is_empty() || self.reports.traps || self.reports.in_place {
            return Vec::new();
        }
        let all = Counted::all(self.analysis, least_passes(self.plan.shadow)).into_iter();
        all.filter_map(|counted| self.quick(counted, frees))
            .collect()
    }

    fn quick(&mut self, counted: Counted<'a>, frees: bool) -> Option<Quick<'a>> {
        let code = &self.analysis.code;
        let is_inside = |index: &u32| counted.holds(*index as usize);
        let makes = self.made.keys().any(is_inside)
            || self.may_end_in.iter().any(is_inside)
            || self.open_loops.iter().any(is_inside);
        let mut own = (counted.first..=counted.branch).map(|at| code.instructions[at].instruction);
        if makes || frees && own.any(may_free) {
            return None;
        }
        let leaders: Vec<Planned> = self
            .plan
            .accesses
            .iter()
            .filter(|access| access.leads && is_inside(&access.instruction))
            .copied()
            .collect();
        let mut head = String::new();
        let mut ahead = Ahead::of(self.analysis, &counted);
        ahead.begin(&mut head)?;
        let mut is_ahead = vec![false; self.plan.groups.len()];
        for leader in &leaders {
            let group = &self.plan.groups[leader.group as usize];
            let mut aside = ahead.clone();
            is_ahead[leader.group as usize] =
                self.checked_ahead(&mut aside, (leader, group, false), &mut String::new());
        }
        with_twins(self.plan, &mut is_ahead);
        let group_of = |leader: &Planned| &self.plan.groups[leader.group as usize];
        let mut chosen: Vec<&Planned> = leaders.iter().collect();
        chosen.retain(|leader| is_ahead[leader.group as usize]);
        let fewest = match self.plan.shadow {
            None => FEWEST,
            Some(_) => 1,
        };
        let all = self.plan.accesses.iter();
        let unchecked = all.filter(|access| is_ahead[access.group as usize]).count();
        let is_worth_while = unchecked >= fewest && chosen.len() * GAIN >= leaders.len();
        if !is_worth_while || chosen.len() > MOST {
            return None;
        }
        // (A twin has the same address and bytes.)
        chosen.retain(|leader| group_of(leader).twin.is_none());
        if self.plan.shadow.is_some() {
            line!(&mut head, "setp.ne.or.s32 {SLOW}, {POISONED}, 0, {SLOW};");
        }
        // Those of one buffer share a lookup.
        while let Some(first) = chosen.first() {
            let source = group_of(first).proves;
            let mut is_found = false;
            for leader in &chosen {
                let group = group_of(leader);
                if group.proves == source {
                    let looks_up = self.plan.shadow.is_some() && !is_found;
                    self.checked_ahead(&mut ahead, (leader, group, looks_up), &mut head);
                    is_found = true;
                }
            }
            chosen.retain(|leader| group_of(leader).proves != source);
        }
        let (narrow, wide) = ahead.used();
        let most = self.ahead.get_or_insert((0, 0));
        *most = (most.0.max(narrow), most.1.max(wide));
        Some(Quick {
            counted,
            ahead: is_ahead,
            text: head,
        })
    }

    /// Checks a group in the first pass and in the last, if that can be done. Where shadow
    /// memory decides in the loop, one buffer must hold both: that of the first pass, which
    /// is looked up, or the last one that was.
    fn checked_ahead(
        &self,
        ahead: &mut Ahead<'_, '_, '_>,
        (leader, group, looks_up): (&Planned, &Group, bool),
        out: &mut String,
    ) -> bool {
        let has_bounds = match group.source {
            Source::Root(_) | Source::Shadow(_) => !group.in_doubt,
            Source::Byte => true,
            _ => false,
        };
        let (Extent::Bytes(bytes @ 1..), Base::Register(_)) = (group.extent, group.base) else {
            return false;
        };
        if !has_bounds || group.window.is_some() || group.lanes != 32 {
            return false;
        }
        let index = leader.instruction as usize;
        let Some(Value { first, way }) = ahead.operand(index, leader.operand, out) else {
            return false;
        };
        if group.aligned == Aligned::Tested
            && let Some(way) = &way
            && !way
                .each
                .is_some_and(|each| is_multiple(each, group.needs.0))
        {
            return false;
        }
        if looks_up {
            let probe = match group.low {
                0 => first.clone(),
                low => {
                    line!(out, "add.s64 {OFFSET}, {first}, {low};");
                    OFFSET.to_string()
                }
            };
            lookup_in(Op::Program(&probe), None, out);
            line!(
                out,
                "setp.gt.or.u64 {SLOW}, {WEAK_SIZE}, {LARGEST_BUFFER}, {SLOW};"
            );
        }
        let (base, size) = match group.source {
            Source::Byte => (WEAK_BASE, WEAK_SIZE),
            source => self.generic_bounds(source),
        };
        line!(out, "sub.s64 {OFFSET}, {first}, {base};");
        if group.low != 0 {
            line!(out, "add.s64 {OFFSET}, {OFFSET}, {};", group.low);
        }
        let limit = self.limit_of(group, bytes - 1, size, out);
        line!(out, "setp.ge.or.u64 {SLOW}, {OFFSET}, {limit}, {SLOW};");
        or_misaligned(group, Address::Wide(Op::Program(&first)), SLOW, out);
        if let Some(way) = way {
            line!(out, "add.s64 {OFFSET}, {OFFSET}, {};", way.register);
            line!(out, "setp.ge.or.u64 {SLOW}, {OFFSET}, {limit}, {SLOW};");
        }
        true
    }

    /// Writes the checks before a loop, and its quick copy.
    pub(super) fn quick_copy(&mut self, quick: &Quick<'a>, source: &str, patch: &mut Patch) {
        let counted = &quick.counted;
        let (Some(first), Some(last)) = (counted.before.first(), counted.before.last()) else {
            return;
        };
        let body = self.body_of_copy(quick, source, last.span.end);
        patch.insert(first.span.start, |out| {
            put(out, format_args!("{}:\n\t", counted.label("ahead")));
            out.push_str(&quick.text);
            let (slow, quick) = (counted.label("slow"), counted.label("quick"));
            put(out, format_args!("@{SLOW} bra {slow};\n{quick}:"));
            out.push_str(&body);
            let end = counted.label("out");
            put(out, format_args!("\n\tbra {end};\n{slow}:\n"));
        });
    }

    /// The instructions of a loop, with the checks that stay.
    fn body_of_copy(&mut self, quick: &Quick<'a>, source: &str, from: u32) -> String {
        let counted = &quick.counted;
        let code = &self.analysis.code;
        let staying: Vec<Planned> = self
            .plan
            .accesses
            .iter()
            .filter(|access| {
                counted.holds(access.instruction as usize) && !quick.ahead[access.group as usize]
            })
            .copied()
            .collect();
        let mut planned = staying.iter().peekable();
        let mut labels = counted.inside.iter().peekable();
        let mut patch = Patch::default();
        self.last_owner = None;
        for index in counted.first..=counted.branch {
            let inst = &code.instructions[index];
            let instruction = inst.instruction;
            while let Some(label) =
                labels.next_if(|label| label.span.start < instruction.span.start)
            {
                let name = counted.in_copy(label.name).unwrap_or_default();
                patch.edit(label.span.start, label.span.end, |out| {
                    put(out, format_args!("{name}:"));
                });
            }
            self.accesses_at(index, &mut planned, &mut patch);
            if instruction.opcode.mnemonic() == Mnemonic::Bra
                && let [target] = &instruction.operands[..]
                && let OperandKind::Name(name) = target.kind
                && let Some(name) = counted.in_copy(name)
            {
                patch.edit(target.span.start, target.span.end, |out| {
                    out.push_str(&name);
                });
            }
        }
        self.last_owner = None;
        let mut out = String::new();
        let end = code.instructions[counted.branch].instruction.span.end;
        patch.render(source, (from, end), from, "", &mut out);
        out
    }
}

fn is_multiple(each: i64, bytes: u64) -> bool {
    each.unsigned_abs().is_multiple_of(bytes)
}
