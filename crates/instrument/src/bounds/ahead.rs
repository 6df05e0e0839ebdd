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
use analysis::RootId;
use ptx::table::Extent;
use ptx::{Mnemonic, OperandKind};

/// A loop has a quick copy if at least one in so many of its checks is left out there.
const GAIN: usize = 3;

/// The most checks before a loop.
const MOST: usize = 48;

/// Tells labels in a copy from those of the loop.
const IN_COPY: &str = "q";

/// The bounds that the addresses of a loop are compared with before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bounds {
    /// Those of the group's source; where shadow memory decides, the last that were looked
    /// up.
    Own,
    /// Those of the buffer that holds the first address.
    LookedUp,
    /// Those of a parameter's buffer, in place of shadow memory.
    Passed(RootId),
}

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

    pub(super) fn holds(&self, index: usize) -> bool {
        self.counted.holds(index)
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
                self.checked_ahead(&mut aside, (leader, group), Bounds::Own, &mut String::new());
        }
        with_twins(self.plan, &mut is_ahead);
        let group_of = |leader: &Planned| &self.plan.groups[leader.group as usize];
        let mut chosen: Vec<&Planned> = leaders.iter().collect();
        chosen.retain(|leader| is_ahead[leader.group as usize]);
        let is_near = |group: &Group| self.plan.near(self.analysis, group).is_some();
        let looks_up = chosen.iter().any(|leader| {
            let group = group_of(leader);
            group.source == Source::Byte && !is_near(group)
        });
        let is_worth_while = !chosen.is_empty() && chosen.len() * GAIN >= leaders.len();
        if !is_worth_while || chosen.len() > MOST {
            return None;
        }
        // (A twin has the same address and bytes.)
        chosen.retain(|leader| group_of(leader).twin.is_none());
        if looks_up {
            line!(&mut head, "setp.ne.or.s32 {SLOW}, {POISONED}, 0, {SLOW};");
        }
        // Those of one buffer share a lookup.
        while let Some(first) = chosen.first() {
            let source = group_of(first).proves;
            let mut is_found = false;
            for leader in &chosen {
                let group = group_of(leader);
                if group.proves == source {
                    let bounds = match self.plan.near(self.analysis, group) {
                        Some(root) => Bounds::Passed(root),
                        None if group.source != Source::Byte || is_found => Bounds::Own,
                        None => Bounds::LookedUp,
                    };
                    is_found |= bounds == Bounds::LookedUp;
                    self.checked_ahead(&mut ahead, (leader, group), bounds, &mut head);
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
    /// memory decides in the loop, one buffer must hold both.
    fn checked_ahead(
        &self,
        ahead: &mut Ahead<'_, '_, '_>,
        (leader, group): (&Planned, &Group),
        bounds: Bounds,
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
        if bounds == Bounds::LookedUp {
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
        let (base, size) = match (bounds, group.source) {
            (Bounds::Passed(root), _) => self.near_bounds(root, group, bytes - 1),
            (_, Source::Byte) => (WEAK_BASE, WEAK_SIZE),
            (_, source) => self.generic_bounds(source),
        };
        line!(out, "sub.s64 {OFFSET}, {first}, {base};");
        if group.low != 0 {
            line!(out, "add.s64 {OFFSET}, {OFFSET}, {};", group.low);
        }
        let limit = match bounds {
            Bounds::Passed(_) => size,
            _ => self.limit_of(group, bytes - 1, size, out),
        };
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
        let tried = self.tried(counted.first..counted.branch, &staying);
        let (mut starts, mut ends) = (tried.iter().peekable(), tried.iter().peekable());
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
            if let Some(code) = starts.next_if(|code| code.start == index) {
                self.try_first(code, (IN_COPY, source), &staying, &mut patch);
            }
            self.accesses_at(index, &mut planned, &mut patch);
            if let Some(code) = ends.next_if(|code| code.end == index + 1) {
                patch.insert(instruction.span.end, |out| {
                    Self::end_of_tried(code, IN_COPY, out);
                });
                self.last_owner = None;
            }
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
