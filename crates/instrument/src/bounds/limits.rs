//! The limits that checks compare offsets with: the size of an allocation, less the
//! bytes that follow the first one of an access, or zero where a pointer of the
//! parameters is not aligned.
//!
//! Those of a kernel's pointer parameters are the same for all threads of a launch. The
//! host computes them ([`LaunchLimit`]), and the launch parameter carries them behind
//! the bounds. Others are computed at the top of the body, or where the pointer appears.
//!
//! Where an address is a pointer parameter and an index of 32 bits ([`crate::indexed`]), a
//! check compares the index in place of the offset, with a range that the host computes.

use super::aligned::{Aligned, Pointer};
use super::emit::{Emit, constant_size};
use super::pieces::operand_name;
use super::plan::{ByIndex, Group, Plan, Planned, Source};
use super::text::*;
use crate::indexed::Indices;
use crate::output::{LaunchIndex, LaunchLimit};
use crate::parameters;
use crate::patch::line;
use analysis::{Analysis, Root, RootId};
use model::layout::{LAUNCH_PARAMETER, LaunchBounds, LaunchHeader, LaunchRange};
use ptx::Guard;
use ptx::table::Extent;

/// A limit that a root's offsets are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Limit {
    pub(super) root: RootId,
    /// Bytes of the access, less one.
    pub(super) less: u64,
    /// The limit is zero unless this pointer is aligned.
    pub(super) pointer: Option<Pointer>,
}

impl Group {
    /// The limit in a root's registers for this group; `None` if that is the size.
    pub(super) fn limit(&self, root: RootId, less: u64) -> Option<Limit> {
        let pointer = match self.aligned {
            Aligned::ByLimit(pointer) => Some(pointer),
            _ => None,
        };
        (less > 0 || pointer.is_some()).then_some(Limit {
            root,
            less,
            pointer,
        })
    }
}

impl Plan {
    /// The limits that checks of the plan compare with, in order of their registers.
    pub(super) fn limits_of_checks(&self, analysis: &Analysis<'_, '_>) -> Vec<Limit> {
        let mut limits = Vec::new();
        for group in self.checked_groups() {
            let source = match self.near(analysis, group) {
                Some(root) => Source::Root(root),
                None => group.source,
            };
            if let (
                Source::Root(root),
                Extent::Bytes(bytes @ 1..) | Extent::BytesUnless(bytes @ 1.., _),
            ) = (source, group.extent)
                && group.window.is_none()
                && !group.in_doubt
                && constant_size(analysis, root).is_none()
                && let Some(limit) = group.limit(root, bytes - 1)
                && !limits.contains(&limit)
            {
                limits.push(limit);
            }
        }
        limits
    }

    /// The pointer parameter in whose buffer the addresses of a group are expected, where
    /// shadow memory decides. What lies in a live buffer is addressable, so that shadow
    /// memory need not be asked. (The host passes no bounds of what may end before the
    /// launch does, or may be poisoned.)
    pub(super) fn near(&self, analysis: &Analysis<'_, '_>, group: &Group) -> Option<RootId> {
        let Source::Root(root) = group.proves else {
            return None;
        };
        let is_parameter = matches!(
            analysis.provenance.root(root),
            Some(Root::KernelParameter { .. })
        );
        let is_near = self.launch
            && analysis.code.function.is_entry
            && group.source == Source::Byte
            && group.extent.is_constant()
            && is_parameter;
        is_near.then_some(root)
    }

    /// Notes the limits that the host can compute.
    pub(super) fn settle_launch_limits(&mut self, analysis: &Analysis<'_, '_>) {
        let mut limits = self.limits_of_checks(analysis);
        limits.retain(|limit| self.launch_limit(analysis, limit).is_some());
        self.launch_limits = limits;
    }

    /// Notes which checks compare an index in place of an address, with which ranges.
    pub(super) fn settle_launch_indices(&mut self, analysis: &Analysis<'_, '_>) {
        if !analysis.code.function.is_entry {
            return;
        }
        let indices = Indices::of(analysis);
        for leader in self.accesses.iter().filter(|access| access.leads) {
            let found = self.launch_index(analysis, &indices, leader);
            let Some((range, read_at)) = found else {
                continue;
            };
            let known = self.launch_indices.iter();
            let place = known.clone().position(|known| *known == range);
            let place = place.unwrap_or(known.len());
            if place == self.launch_indices.len() {
                self.launch_indices.push(range);
            }
            let by_index = ByIndex {
                range: place as u32,
                read_at,
            };
            self.by_index.insert(leader.group, by_index);
        }
    }

    /// No check compares an index.
    pub(super) fn without_launch_indices(&mut self) {
        self.launch_indices.clear();
        self.by_index.clear();
    }

    /// What the host computes the range of indices from that the accesses of a group have,
    /// and the instruction that reads the index.
    fn launch_index(
        &self,
        analysis: &Analysis<'_, '_>,
        indices: &Indices<'_, '_, '_>,
        leader: &Planned,
    ) -> Option<(LaunchIndex, u32)> {
        let group = &self.groups[leader.group as usize];
        let (Source::Root(root), Extent::Bytes(bytes @ 1..)) = (group.source, group.extent) else {
            return None;
        };
        let is_plain = group.window.is_none()
            && !group.in_doubt
            && !group.redirects
            && group.twin.is_none()
            && group.lanes == 32
            && group.aligned != Aligned::Tested;
        let at = leader.instruction as usize;
        let indexed = indices.of_access(at, leader.operand).filter(|_| is_plain)?;
        let limit = match group.limit(root, bytes - 1) {
            Some(limit) => self.launch_limit(analysis, &limit)?,
            None => LaunchLimit {
                root: self.place_of_root(analysis, root)?,
                less: 0,
                alignment: 1,
                residue: 0,
            },
        };
        if self.roots.get(limit.root as usize) != Some(&indexed.parameter) {
            return None;
        }
        let range = LaunchIndex {
            root: limit.root,
            scale: indexed.scale,
            is_signed: indexed.is_signed,
            first: indexed.offset.checked_add(group.low)?,
            less: limit.less,
            alignment: limit.alignment,
            residue: limit.residue,
        };
        Some((range, indexed.read_at as u32))
    }

    /// Where the launch parameter has the bounds of a pointer parameter.
    fn place_of_root(&self, analysis: &Analysis<'_, '_>, root: RootId) -> Option<u32> {
        let Root::KernelParameter { offset } = analysis.provenance.root(root)? else {
            return None;
        };
        let place = self.roots.iter().position(|&root| root == offset)?;
        Some(place as u32)
    }

    /// What the host must know of those limits.
    pub(super) fn launch_limits(&self, analysis: &Analysis<'_, '_>) -> Vec<LaunchLimit> {
        let limits = self.launch_limits.iter();
        let limits = limits.filter_map(|limit| self.launch_limit(analysis, limit));
        limits.collect()
    }

    /// What the host computes a limit from; `None` if it is of no pointer parameter, or
    /// depends on the alignment of another one.
    fn launch_limit(&self, analysis: &Analysis<'_, '_>, limit: &Limit) -> Option<LaunchLimit> {
        let Root::KernelParameter { offset } = analysis.provenance.root(limit.root)? else {
            return None;
        };
        let (alignment, residue) = match limit.pointer {
            None => (1, 0),
            Some(pointer) if pointer.parameter == offset => (pointer.bytes, pointer.residue),
            Some(_) => return None,
        };
        Some(LaunchLimit {
            root: self.place_of_root(analysis, limit.root)?,
            less: limit.less,
            alignment,
            residue,
        })
    }

    /// Bytes of the launch parameter before the limits.
    pub(super) fn launch_bounds(&self) -> usize {
        size_of::<LaunchHeader>() + size_of::<LaunchBounds>() * self.roots.len()
    }

    /// Bytes of the launch parameter before the ranges of indices.
    fn launch_ranges(&self) -> usize {
        self.launch_bounds() + size_of::<u64>() * self.launch_limits.len()
    }

    /// Bytes of the launch parameter before the window of shadow memory.
    pub(super) fn launch_window(&self) -> usize {
        self.launch_ranges() + size_of::<LaunchRange>() * self.launch_indices.len()
    }

    /// Where the launch parameter has a limit, if it has.
    fn launch_place(&self, limit: &Limit) -> Option<usize> {
        let mut known = self.launch_limits.iter();
        let place = known.position(|known| known == limit)?;
        self.launch
            .then(|| self.launch_bounds() + size_of::<u64>() * place)
    }
}

impl<'a> Emit<'_, '_, 'a> {
    /// The ranges of indices, at the top of the body.
    pub(super) fn ranges(&self, out: &mut String) {
        if !self.plan.launch {
            return;
        }
        let at = self.plan.launch_ranges();
        for number in 0..self.plan.launch_indices.len() {
            let at = at + number * size_of::<LaunchRange>();
            let span_at = at + std::mem::offset_of!(LaunchRange, span);
            let (from, span) = (
                Op::Family(INDEX_FROM, number as u32),
                Op::Family(INDEX_SPAN, number as u32),
            );
            line!(out, "ld.param.b32 {from}, [{LAUNCH_PARAMETER}+{at}];");
            line!(out, "ld.param.b32 {span}, [{LAUNCH_PARAMETER}+{span_at}];");
        }
    }

    /// Sets `outside` where the index of a group's address is not in bounds, if it has one.
    pub(super) fn compare_index(
        &self,
        number: u32,
        guard: Option<Guard<'a>>,
        outside: Op<'a>,
        out: &mut String,
    ) -> bool {
        let by_index = self.plan.by_index.get(&number);
        let Some(by_index) = by_index.filter(|_| self.plan.launch) else {
            return false;
        };
        let read_at = &self.analysis.code.instructions[by_index.read_at as usize];
        let Some(index) = operand_name(read_at.instruction, 1) else {
            return false;
        };
        let (from, span) = (
            Op::Family(INDEX_FROM, by_index.range),
            Op::Family(INDEX_SPAN, by_index.range),
        );
        line!(out, "sub.s32 {OFFSET32}, {index}, {from};");
        match guard {
            None => line!(out, "setp.gt.u32 {outside}, {OFFSET32}, {span};"),
            Some(Guard {
                negated, register, ..
            }) => {
                let not = if negated { "!" } else { "" };
                line!(
                    out,
                    "setp.gt.and.u32 {outside}, {OFFSET32}, {span}, {not}{register};"
                );
            }
        }
        true
    }

    /// The limits that depend on one root's size.
    pub(super) fn limits_of(&self, root: RootId, out: &mut String) {
        for (number, known) in self.limit_list.iter().enumerate() {
            if known.root != root {
                continue;
            }
            let register = Op::Family(LIMIT, number as u32);
            if let Some(place) = self.plan.launch_place(known) {
                line!(
                    out,
                    "ld.param.b64 {register}, [{LAUNCH_PARAMETER}+{place}];"
                );
                continue;
            }
            super::pieces::limit(register, Op::Family(ROOT_SIZE, root.0), known.less, out);
            if let Some(pointer) = known.pointer {
                self.limit_unless_aligned(register, pointer, out);
            }
        }
    }

    /// Makes a limit zero where a pointer of the parameters is not aligned.
    fn limit_unless_aligned(&self, limit: Op<'_>, pointer: Pointer, out: &mut String) {
        let Pointer {
            parameter,
            residue,
            bytes,
        } = pointer;
        let Some((name, at)) = parameters::holding(self.analysis.code.function, parameter) else {
            return;
        };
        line!(out, "ld.param.b64 {SCRATCH2}, [{name}+{at}];");
        if residue != 0 {
            line!(out, "add.s64 {SCRATCH2}, {SCRATCH2}, {residue};");
        }
        line!(out, "and.b64 {SCRATCH2}, {SCRATCH2}, {};", bytes - 1);
        line!(out, "setp.ne.s64 {OTHER}, {SCRATCH2}, 0;");
        line!(out, "selp.b64 {limit}, 0, {limit}, {OTHER};");
    }
}
