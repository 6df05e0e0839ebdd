//! Writes code twice that mostly finds its addresses in the buffers of parameters, where
//! shadow memory decides about others (`crate::again`).
//!
//! In the first copy an access is left out unless it lies in its buffer, and what was left
//! out is noted. There is no branch, so that loads overlap. Behind it comes the code with
//! its checks, which is jumped over unless something was left out.

use super::emit::Emit;
use super::plan::{Group, Planned};
use super::text::*;
use crate::again::Repeatable;
use crate::patch::{Patch, line, put};
use crate::protocol::LABEL_PREFIX;
use analysis::RootId;
use ptx::Guard;
use ptx::table::Extent;
use std::ops::Range;

/// The fewest checks that such code has: a single one is jumped over by itself.
const FEWEST: usize = 2;

impl<'a> Emit<'_, '_, 'a> {
    /// The code that is written twice, among these instructions with these checks.
    pub(super) fn tried(&self, within: Range<usize>, planned: &[Planned]) -> Vec<Range<usize>> {
        if self.plan.shadow.is_none() || self.reports.traps {
            return Vec::new();
        }
        let mut tried: Vec<Range<usize>> = Vec::new();
        for leader in planned.iter().filter(|access| access.leads) {
            let first = leader.instruction as usize;
            let is_done = tried.last().is_some_and(|last| first < last.end);
            if is_done || !within.contains(&first) || !self.is_tried(leader) {
                continue;
            }
            let mut all = Repeatable::from(self.analysis, first);
            let (mut end, mut checks) = (first, 0);
            for index in first..within.end {
                let is_special = self.may_end_in.contains(&(index as u32))
                    || self.open_loops.contains(&(index as u32))
                    || self.made.contains_key(&(index as u32));
                if is_special || !all.takes_next() {
                    break;
                }
                let here = of_instructions(planned, &(index..index + 1)).iter();
                let leaders = here.filter(|access| access.leads && self.is_tried(access));
                match leaders.count() {
                    0 => {}
                    leaders => (end, checks) = (index + 1, checks + leaders),
                }
            }
            if checks >= FEWEST {
                tried.push(first..end);
            }
        }
        tried
    }

    /// Whether a check compares with the bounds of a parameter's buffer first.
    fn is_tried(&self, leader: &Planned) -> bool {
        let group = &self.plan.groups[leader.group as usize];
        group.twin.is_none() && self.plan.near(self.analysis, group).is_some()
    }

    /// Writes the first copy of code, in front of it. `mark` tells its labels from those of
    /// the same code elsewhere.
    pub(super) fn try_first(
        &mut self,
        code: &Range<usize>,
        (mark, source): (&str, &str),
        planned: &[Planned],
        patch: &mut Patch,
    ) {
        let instructions = &self.analysis.code.instructions;
        let from = instructions[code.start].attached_from;
        let end = instructions[code.end - 1].instruction.span.end;
        let mut planned = of_instructions(planned, code).iter().peekable();
        let mut copy = Patch::default();
        (self.is_trial, self.last_owner) = (true, None);
        for index in code.clone() {
            self.accesses_at(index, &mut planned, &mut copy);
        }
        (self.is_trial, self.last_owner) = (false, None);
        self.has_trials = true;
        let number = code.start;
        patch.insert(from, |out| {
            put(out, format_args!("\n{LABEL_PREFIX}try{number}{mark}:\n\t"));
            line!(out, "setp.ne.s32 {FAR}, {SITE}, {SITE};");
            copy.render(source, (from, end), from, "", out);
            out.push_str("\n\t");
            line!(out, "@!{FAR} bra {LABEL_PREFIX}kept{number}{mark};");
            put(out, format_args!("{LABEL_PREFIX}again{number}{mark}:\n\t"));
        });
    }

    /// The label behind code that is written twice.
    pub(super) fn end_of_tried(code: &Range<usize>, mark: &str, out: &mut String) {
        let number = code.start;
        put(out, format_args!("\n{LABEL_PREFIX}kept{number}{mark}:"));
    }

    /// Sets `outside` where a group's bytes are not in a parameter's buffer.
    pub(super) fn near_verdict(
        &self,
        (root, group): (RootId, &Group),
        (pointer, guard): (Op<'a>, Option<Guard<'a>>),
        outside: Op<'a>,
        out: &mut String,
    ) {
        let (Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _)) = group.extent else {
            return;
        };
        let (base, limit) = self.near_bounds(root, group, bytes - 1);
        line!(out, "sub.s64 {OFFSET}, {pointer}, {base};");
        if group.low != 0 {
            line!(out, "add.s64 {OFFSET}, {OFFSET}, {};", group.low);
        }
        match guard {
            None => line!(out, "setp.ge.u64 {outside}, {OFFSET}, {limit};"),
            Some(guard) => {
                let not = if guard.negated { "!" } else { "" };
                line!(
                    out,
                    "setp.ge.and.u64 {outside}, {OFFSET}, {limit}, {not}{};",
                    guard.register
                );
            }
        }
    }
}

/// The accesses of some instructions; all are in text order.
fn of_instructions<'p>(planned: &'p [Planned], code: &Range<usize>) -> &'p [Planned] {
    let before = |index: usize| planned.partition_point(|p| (p.instruction as usize) < index);
    &planned[before(code.start)..before(code.end)]
}
