//! Finds the bounds for an access, and joins it to accesses that share a check
//! with it.

use super::aligned::Aligned;
use super::extent::{is_static, sink_alignment, width_of};
use super::plan::{Base, Group, Planned, Planner, Source};
use super::window::{FailurePolicy, Window, failure_policy};
use crate::error::Error;
use crate::sites::{NewSite, Sites};
use analysis::{Lost, Referent, ValueId};
use model::{AccessKind, Provenance, SiteId, Space};
use ptx::table::{Access, Effect, Extent, Info, Predication, used_bytes};
use ptx::{Mnemonic, OperandKind};

/// Largest span of one group: well inside the sinks.
const GROUP_SPAN: u64 = 16 << 10;

/// The properties that two accesses with a common check share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key<'a> {
    base: Base,
    window: Option<Window>,
    writes: bool,
    pub(super) guard: Option<(&'a str, bool, u32)>,
    lanes: u32,
}

/// An access that is to be checked.
struct Found<'x> {
    index: usize,
    info: &'x Info,
    access: &'x Access,
    window: Option<Window>,
    base: Base,
    source: Source,
    /// Bytes that are used.
    extent: Extent,
    /// Bytes before those.
    skipped: i64,
    /// The constant of the address.
    offset: i64,
    in_doubt: bool,
    /// Most bytes of a group.
    span: u64,
    /// It is checked by its address.
    by_address: bool,
}

/// Why nothing is done about an access.
enum Left {
    /// It needs no check, or none is asked for.
    Alone,
    /// It cannot be checked, which is reported.
    Unchecked,
}

impl Found<'_> {
    /// From the address to the first byte that is used.
    fn low(&self) -> i64 {
        self.offset.wrapping_add(self.skipped)
    }

    /// Bytes that are known to be used.
    fn width(&self) -> u64 {
        match self.extent {
            Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => bytes,
            Extent::Steps { last, .. } => last,
            Extent::Operand(_) => 1,
        }
    }

    /// Whether it may share a check with others.
    fn is_groupable(&self) -> bool {
        // The completion of a barrier depends on which of its accesses failed.
        let completes = self.info.predication == Predication::Whole;
        // By lookup, each access has its own bounds.
        let has_own_bounds = self.source == Source::Weak || self.in_doubt;
        matches!(self.extent, Extent::Bytes(bytes) if bytes <= self.span)
            && !completes
            && (self.by_address || !has_own_bounds)
            // Values in unreachable code have no names.
            && self.base != Base::Register(ValueId::NONE)
    }

    /// Whether it writes, and the alignment of its sink. Nothing is redirected
    /// in a window: reads and writes share checks.
    fn sink(&self) -> (bool, (u64, i64)) {
        match self.window {
            Some(_) => (false, (1, 0)),
            None => (
                self.access.effect != Effect::Read,
                (sink_alignment(self.access), self.offset),
            ),
        }
    }

    /// The alignment that the access needs.
    fn needs(&self) -> (u64, i64) {
        (u64::from(self.access.alignment), self.offset)
    }

    fn policy(&self) -> FailurePolicy {
        failure_policy(self.info.predication, self.window.is_some())
    }
}

impl<'x, 'a> Planner<'x, '_, 'a> {
    /// Plans the check of one access.
    pub(super) fn access(
        &mut self,
        index: usize,
        (info, access): (&'x Info, &'x Access),
        sites: &mut Sites<'_>,
    ) -> Result<(), Error> {
        let found = match self.find(index, (info, access), sites.source()) {
            Ok(found) => found,
            Err(Left::Alone) => return Ok(()),
            Err(Left::Unchecked) => {
                self.unchecked(index);
                return Ok(());
            }
        };
        if is_static(self.analysis, index, access) {
            // Nothing to do at run time.
            self.plan.coverage.exact_sites += 1;
            return Ok(());
        }
        let provenance = match found.in_doubt {
            _ if found.by_address => Provenance::Shadow,
            true => Provenance::Several,
            false => self.provenance(found.source, found.base),
        };
        let site = self.site(&found, provenance, sites)?;
        self.count(&found, provenance, site);
        if !self.join(&found, sites) {
            self.open_group(&found, site);
        }
        Ok(())
    }

    /// The bounds that an access is checked against, if it is checked.
    fn find(
        &self,
        index: usize,
        (info, access): (&'x Info, &'x Access),
        text: &str,
    ) -> Result<Found<'x>, Left> {
        let window = match access.space {
            ptx::table::Space::Global | ptx::table::Space::Generic => None,
            space => Some(Window::of(space).ok_or(Left::Alone)?),
        };
        let generic = access.space == ptx::table::Space::Generic;
        let code = &self.analysis.code;
        let inst = &code.instructions[index];
        let instruction = inst.instruction;
        let Some(OperandKind::Address(address)) =
            instruction.operands.get(access.operand).map(|o| &o.kind)
        else {
            return Err(Left::Unchecked);
        };
        let reference = code
            .address_of(index, access.operand)
            .ok_or(Left::Unchecked)?;
        let Some((base, source)) = (match window {
            Some(window) => self.source_in(reference, window),
            None => self
                .source(reference, generic)
                .or_else(|| self.by_address(reference)),
        }) else {
            let is_lost = matches!(reference.referent, Referent::Wide(_))
                && (window.is_some() || self.is_of_unnamed(reference));
            return Err(if is_lost {
                Left::Unchecked
            } else {
                Left::Alone
            });
        };
        let by_address = window.is_none() && self.is_by_address((base, source));
        let is_asked_for = match by_address {
            true => self.checked.global,
            false => self.is_asked_for(source, window),
        };
        let is_left_out = match access.effect {
            Effect::Read => self.checked.no_reads,
            Effect::Write | Effect::Atomic => self.checked.no_writes,
        };
        if !is_asked_for || is_left_out {
            return Err(Left::Alone);
        }
        if instruction.opcode.mnemonic() == Mnemonic::Multimem || (generic && info.is_shared_only) {
            return Err(Left::Unchecked);
        }
        let (skipped, extent) = match width_of(inst, access).ok_or(Left::Unchecked)? {
            Extent::Bytes(bytes) => {
                let attached = &text[inst.attached_from as usize..instruction.span.start as usize];
                let (from, to) = used_bytes(instruction, bytes, attached);
                (from as i64, Extent::Bytes(to - from))
            }
            other => (0, other),
        };
        if extent == Extent::Bytes(0) {
            return Err(Left::Alone);
        }
        Ok(Found {
            index,
            info,
            access,
            window,
            base,
            source,
            extent,
            skipped,
            offset: address.offset,
            in_doubt: window.is_none() && self.is_in_doubt(base, source),
            span: match self.plan.shadow {
                Some(encoding) if by_address => encoding.block(),
                _ => GROUP_SPAN,
            },
            by_address,
        })
    }

    /// Lists the access as a site.
    fn site(
        &self,
        found: &Found<'_>,
        provenance: Provenance,
        sites: &mut Sites<'_>,
    ) -> Result<SiteId, Error> {
        if sites.are_full() {
            return Err(Error::TooManySites);
        }
        let code = &self.analysis.code;
        let inst = &code.instructions[found.index];
        Ok(sites.add(NewSite {
            function: code.function.name,
            kind: match found.access.effect {
                Effect::Read => AccessKind::Read,
                Effect::Write => AccessKind::Write,
                Effect::Atomic => AccessKind::Atomic,
            },
            space: match found.access.space {
                ptx::table::Space::Global => Space::Global,
                _ => found.window.map_or(Space::Generic, Window::space),
            },
            object: self.object(found.source, found.base),
            width: u32::try_from(found.width()).unwrap_or(u32::MAX),
            width_at_run_time: matches!(found.extent, Extent::Operand(_) | Extent::Steps { .. }),
            offset: found.low(),
            is_wide: self.compares_all_bits(found),
            alignment: found.access.alignment,
            skipped: found.skipped as u32,
            provenance,
            loc: inst.loc,
            span: inst.instruction.span,
        }))
    }

    /// Whether an access is checked by 64 bits of its address where its space has 32.
    fn compares_all_bits(&self, found: &Found<'_>) -> bool {
        found.window.is_some() && self.is_wide(found.source, found.base)
    }

    /// Counts a site that is checked.
    fn count(&mut self, found: &Found<'_>, provenance: Provenance, site: SiteId) {
        match provenance {
            _ if found.by_address => self.plan.coverage.weak_sites += 1,
            Provenance::Unknown => {
                self.plan.coverage.weak_sites += 1;
                let lost = match found.base {
                    Base::Register(value) => self.analysis.lost(value),
                    Base::Symbol(_) => Lost::NoBounds,
                };
                self.plan.lost.push((site, lost));
            }
            _ => self.plan.coverage.exact_sites += 1,
        }
        self.plan.records_bounds |=
            !found.by_address && !matches!(provenance, Provenance::KernelParameter { .. });
    }

    /// The key of an access: accesses that share a check have the same one.
    fn key(&self, found: &Found<'_>) -> Key<'a> {
        let inst = &self.analysis.code.instructions[found.index];
        Key {
            base: found.base,
            window: found.window,
            writes: found.sink().0,
            guard: inst
                .instruction
                .guard
                .map(|guard| (guard.register, guard.negated, inst.scope)),
            lanes: found.access.lanes,
        }
    }

    /// Adds an access to an open group; answers whether there is one for it.
    fn join(&mut self, found: &Found<'_>, sites: &mut Sites<'_>) -> bool {
        if !found.is_groupable() {
            return false;
        }
        let Some(&open) = self.open.get(&self.key(found)) else {
            return false;
        };
        let Some(group) = self.plan.groups.get_mut(open as usize) else {
            return false;
        };
        let Some(grown) = merged(group, found) else {
            return false;
        };
        let policy = found.policy();
        group.low = grown.low;
        group.extent = Extent::Bytes(grown.bytes);
        group.alignment = grown.alignment;
        group.needs = grown.needs;
        group.redirects |= policy == FailurePolicy::Redirected;
        group.stops |= policy == FailurePolicy::Stopped;
        if let Some(site) = sites.list.last_mut() {
            site.group = group.site;
        }
        self.plan.accesses.push(Planned {
            instruction: found.index as u32,
            operand: found.access.operand,
            group: open,
            leads: false,
            policy,
        });
        true
    }

    /// Begins a group with an access.
    fn open_group(&mut self, found: &Found<'_>, site: SiteId) {
        let key = self.key(found);
        let groupable = found.is_groupable();
        let number = self.plan.groups.len() as u32;
        let other = Key {
            writes: !key.writes,
            ..key
        };
        // (A variable's address is in a register of each group's own.)
        let twin = match found.base {
            Base::Register(_) if groupable => self.open.get(&other).copied(),
            _ => None,
        };
        let policy = found.policy();
        let (writes, alignment) = found.sink();
        self.plan.groups.push(Group {
            twin,
            keeps: None,
            base: found.base,
            source: match found.by_address {
                true => Source::Byte,
                false => found.source,
            },
            proves: found.source,
            window: found.window,
            is_wide: self.compares_all_bits(found),
            in_doubt: found.in_doubt && !found.by_address,
            low: found.low(),
            extent: found.extent,
            writes,
            alignment,
            needs: found.needs(),
            aligned: Aligned::Known,
            site,
            lanes: found.access.lanes,
            redirects: policy == FailurePolicy::Redirected,
            skips: false,
            stops: policy == FailurePolicy::Stopped,
        });
        self.plan.accesses.push(Planned {
            instruction: found.index as u32,
            operand: found.access.operand,
            group: number,
            leads: true,
            policy,
        });
        if groupable {
            self.open.insert(key, number);
        }
    }
}

/// A group with one more member.
struct Grown {
    low: i64,
    bytes: u64,
    alignment: (u64, i64),
    needs: (u64, i64),
}

/// The group with one more member. `None` if the two cannot share a sink, or
/// cannot both be aligned.
fn merged(group: &Group, found: &Found<'_>) -> Option<Grown> {
    let (low, width) = (found.low(), found.width());
    let Extent::Bytes(bytes) = group.extent else {
        return None;
    };
    let end = group
        .low
        .checked_add_unsigned(bytes)?
        .max(low.checked_add_unsigned(width)?);
    let new_low = group.low.min(low);
    let span = u64::try_from(end.checked_sub(new_low)?).ok()?;
    if span > found.span {
        return None;
    }
    Some(Grown {
        low: new_low,
        bytes: span,
        alignment: stricter(group.alignment, found.sink().1)?,
        needs: stricter(group.needs, found.needs())?,
    })
}

/// The greater of two alignments, with its offset. One address must satisfy
/// both, so the offsets must agree modulo the smaller alignment.
fn stricter(own: (u64, i64), other: (u64, i64)) -> Option<(u64, i64)> {
    let smaller = own.0.min(other.0) as i64;
    (other.1.wrapping_sub(own.1) % smaller == 0).then_some(if other.0 > own.0 {
        other
    } else {
        own
    })
}
