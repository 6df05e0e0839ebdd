//! Verifies each of the program's accesses against the check that it uses.

use super::Errors;
use super::checks::{Input, State, Text};
use super::extents::{self, Owed};
use super::facts::{is_settled, is_window};
use super::reports::Needed;
use super::verdicts::{Needs, Redirect, Verdict};
use super::written::is_own;
use crate::protocol::register::{
    ADDRESS, DYNAMIC, RECORD_BASE, RECORD_SIZE, SPACE_ADDRESS, SPACE_BASE,
};
use analysis::Root;
use model::layout::{READ_SINK, SINK_SIZE, WRITE_SINK};
use ptx::table::{Access, Effect, Extent, Info, Predication, Space, Width, extent, used_bytes};
use ptx::{Instruction, Mnemonic, OperandKind};

/// One access of an instruction, as it was and as it is.
pub(super) struct Subject<'x, 'a> {
    pub(super) old: &'x Instruction<'a>,
    pub(super) new: &'x Instruction<'a>,
    pub(super) index: usize,
    pub(super) info: &'x Info,
    pub(super) access: &'x Access,
}

impl<'a> Subject<'_, 'a> {
    /// The base and the constant of the address in the source.
    pub(super) fn address(&self) -> Option<(&'a str, i64)> {
        match &self.old.operands.get(self.access.operand)?.kind {
            OperandKind::Address(address) => Some((address.base?, address.offset)),
            _ => None,
        }
    }

    /// The base of the address in the instrumented text.
    pub(super) fn base(&self) -> Option<&'a str> {
        match &self.new.operands.get(self.access.operand)?.kind {
            OperandKind::Address(address) => address.base,
            _ => None,
        }
    }

    /// The accessed bytes; none if only a descriptor has the number.
    pub(super) fn extent(&self, input: &Input<'_, '_, '_>) -> Option<Extent> {
        let inst = &input.analysis.code.instructions[self.index];
        extent(self.old, self.access, inst.ignores_source)
    }

    /// The bytes that the program uses, from the constant of the address on, if
    /// the text has them.
    pub(super) fn used(&self, input: &Input<'_, '_, '_>) -> Option<(i64, i64)> {
        match self.extent(input)? {
            Extent::Bytes(bytes) => {
                let (from, to) = used_bytes(self.old, bytes, input.attached(self.index));
                Some((from as i64, (to - from) as i64))
            }
            Extent::BytesUnless(bytes, _) => Some((0, i64::try_from(bytes).ok()?)),
            _ => None,
        }
    }

    /// The register that counts bytes at run time.
    fn counted(&self, state: &State, input: &Input<'_, '_, '_>) -> Option<super::verdicts::Count> {
        let (operand, step, shift, last) = match self.extent(input)? {
            Extent::Operand(operand) => (operand, 1, 0, 0),
            Extent::Steps {
                step,
                shift,
                last,
                operand,
            } => (operand, step, shift, last),
            _ => return None,
        };
        Some(super::verdicts::Count {
            operand: state.text(self.old, operand),
            step,
            shift,
            last,
        })
    }
}

/// What an access that must be checked is checked against.
pub(super) enum Duty {
    Address(Owed),
    InWindow(extents::Extent),
}

/// The bounds that an access must be checked against; `None` if it may be
/// unchecked, because the text shows that it is in bounds, or nothing can be
/// known of it.
pub(super) fn duty(subject: &Subject<'_, '_>, input: &Input<'_, '_, '_>) -> Option<Duty> {
    let Subject {
        old, index, access, ..
    } = *subject;
    let reference = input.analysis.code.address_of(index, access.operand)?;
    let is_generic = access.space == Space::Generic;
    let duty = match access.space {
        Space::Global | Space::Generic if input.shadow.is_some() => {
            Duty::Address(extents::of_shadow(input, reference, is_generic)?)
        }
        Space::Global | Space::Generic => {
            Duty::Address(extents::of_address(input, reference, is_generic)?)
        }
        space if is_window(space) => Duty::InWindow(extents::in_window(input, reference, space)?),
        _ => return None,
    };
    let out_of_reach =
        old.opcode.mnemonic() == Mnemonic::Multimem || is_generic && subject.info.is_shared_only;
    let touches_nothing = match subject.extent(input)? {
        Extent::Bytes(0) => true,
        _ => subject.used(input).is_some_and(|(_, bytes)| bytes == 0),
    };
    let is_free = out_of_reach || touches_nothing || is_settled(input.analysis, index, access);
    (!is_free).then_some(duty)
}

impl State {
    /// Holds the accesses of one of the program's instructions to checks.
    pub(super) fn access(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some(&index) = input.index.get(&old.span.start) else {
            return;
        };
        let Some(info) = input.analysis.code.info(index) else {
            return;
        };
        self.settle_indices(index, &info.accesses, input);
        let mut is_checked = false;
        for access in &info.accesses {
            let subject = Subject {
                old,
                new,
                index,
                info,
                access,
            };
            is_checked |= match duty(&subject, input) {
                Some(duty) => {
                    self.sites += 1;
                    if self.is_checked_ahead(&subject, &duty, input)
                        || self.is_unchecked(&subject, &duty, input, errors)
                    {
                        continue;
                    }
                    self.reports.has_checks = true;
                    self.held(&subject, duty, input, errors);
                    true
                }
                None => {
                    if subject.base().is_some_and(is_own) {
                        errors.at(
                            new.span,
                            "the address of an access that needs no check changed",
                        );
                    }
                    false
                }
            };
        }
        let is_left_out = new.guard.is_some_and(|guard| is_own(guard.register));
        if is_left_out && !is_checked {
            errors.at(
                new.span,
                "an instruction that needs no check may be left out",
            );
        }
    }

    /// Whether some verdict decides about an access.
    pub(super) fn has_verdict(
        &self,
        subject: &Subject<'_, '_>,
        duty: &Duty,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        match duty {
            Duty::InWindow(extent) => self.window_verdicts(subject).any(|name| {
                self.verdicts.get(&name).is_some_and(|verdict| {
                    let declared = self.size_of(verdict, *extent, input);
                    self.covers_bytes(verdict, subject, declared, input)
                })
            }),
            Duty::Address(_) if subject.base().is_some_and(is_own) => true,
            Duty::Address(_) => self.skipping_verdict(subject).is_some(),
        }
    }

    /// The verdict that predicates an access off.
    fn skipping_verdict(&self, subject: &Subject<'_, '_>) -> Option<(Text, Verdict)> {
        let original = subject.address().map_or("", |(base, _)| base);
        let predicates = self.skipping_verdicts(subject.old, subject.new);
        predicates.into_iter().find_map(|name| {
            let verdict = self.verdicts.get(&name)?;
            self.is_of(&verdict.distance.pointer, original)
                .then(|| (name.clone(), verdict.clone()))
        })
    }

    fn held(
        &mut self,
        subject: &Subject<'_, '_>,
        duty: Duty,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        match duty {
            Duty::InWindow(extent) => self.access_in_window(subject, extent, input, errors),
            Duty::Address(owed) => match subject.base().filter(|base| is_own(base)) {
                Some(base) => self.redirected(subject, base, owed, input, errors),
                None => self.left_out(subject, owed, input, errors),
            },
        }
    }

    /// An access whose address was selected by a check.
    fn redirected(
        &mut self,
        subject: &Subject<'_, '_>,
        base: &str,
        owed: Owed,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let span = subject.new.span;
        let Some(redirect) = self.redirects.get(base).cloned() else {
            let message = format!("`{base}` is not selected by a check in this block");
            return errors.at(span, message);
        };
        if matches!(
            subject.info.predication,
            Predication::Whole | Predication::Warp
        ) {
            errors.at(
                span,
                "an instruction that is left out as a whole goes to a sink",
            );
        }
        let original = subject.address().map_or("", |(base, _)| base);
        if !self.is_of(&redirect.pointer, original) {
            errors.at(
                span,
                format!(
                    "the check is of `{}`, not of `{original}`",
                    redirect.pointer
                ),
            );
        }
        self.judge((base, &redirect.verdict), subject, owed, input, errors);
        judge_sink(&redirect, subject, input, errors);
    }

    /// An access that is left out where its check fails.
    fn left_out(
        &mut self,
        subject: &Subject<'_, '_>,
        owed: Owed,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        match self.skipping_verdict(subject) {
            Some((name, verdict)) => self.judge((&name, &verdict), subject, owed, input, errors),
            None => errors.at(
                subject.new.span,
                "a global or generic access without a check",
            ),
        }
    }

    /// Whether a checked pointer is the address that an operand names.
    fn is_of(&self, pointer: &str, original: &str) -> bool {
        let holds_symbol = self.symbols.get(pointer).map(String::as_str) == Some(original);
        pointer == self.resolve(original) || holds_symbol
    }

    /// Verifies a global or generic access against a verdict, which is in a
    /// predicate or a redirected register.
    fn judge(
        &mut self,
        (name, verdict): (&str, &Verdict),
        subject: &Subject<'_, '_>,
        owed: Owed,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let span = subject.new.span;
        if !self.is_checked_against(verdict, owed, input) {
            let message = match owed.in_doubt && verdict.found.is_none() {
                _ if owed.extent == extents::Extent::Shadow => {
                    "the access is not checked against shadow memory".into()
                }
                true => "the only source of the access's bounds may be no pointer".into(),
                false => format!(
                    "`{}` and `{}` are not base and size of one thing, which the address is derived from",
                    verdict.distance.base, verdict.size
                ),
            };
            errors.at(span, message);
        }
        let (_, offset) = subject.address().unwrap_or(("", 0));
        let is_of_shadow = owed.extent == extents::Extent::Shadow;
        if !is_of_shadow
            && !self.is_aligned(verdict, (offset, subject.index), subject.access, input)
        {
            errors.at(span, "the check lets misaligned addresses pass");
        }
        self.judge_lanes(verdict, subject, input, errors);
        let declared = self.size_of(verdict, owed.extent, input);
        if !self.covers_bytes(verdict, subject, declared, input) {
            errors.at(span, "the check covers other bytes than the access");
        }
        if verdict.is_noted {
            return;
        }
        let knows_bounds = !owed.in_doubt && host_knows(owed.extent, input);
        self.judge_record(
            (name, verdict),
            subject,
            (knows_bounds, declared),
            input,
            errors,
        );
    }

    /// The size of the object of a verdict, where the module's text has it.
    pub(super) fn size_of(
        &self,
        verdict: &Verdict,
        extent: extents::Extent,
        input: &Input<'_, '_, '_>,
    ) -> Option<u64> {
        verdict.size.parse::<u64>().ok()?;
        match extent {
            extents::Extent::Symbol(size) => Some(size),
            extents::Extent::Root(root) => super::facts::constant_size(input.analysis, root),
            _ => None,
        }
    }

    /// Whether a verdict holds under the guard of an access and no other.
    pub(super) fn is_under(
        &self,
        verdict: &Verdict,
        subject: &Subject<'_, '_>,
        input: &Input<'_, '_, '_>,
    ) -> Result<(), &'static str> {
        let mut expected: Vec<Text> = self.guard_of(subject.old).into_iter().collect();
        // Nothing is read if an operand says so.
        if let Some(Extent::BytesUnless(_, operand)) = subject.extent(input) {
            let ignored = self.text(subject.old, operand);
            expected.push(match ignored.strip_prefix('!') {
                Some(reads) => reads.to_owned(),
                None => format!("!{ignored}"),
            });
        }
        if expected.iter().any(|guard| !verdict.guards.contains(guard)) {
            return Err("the check is not under the access's guard");
        }
        match verdict.guards.iter().all(|guard| expected.contains(guard)) {
            true => Ok(()),
            false => Err("the check is under a guard that the access does not have"),
        }
    }

    /// Compares the lanes and the guard of a verdict with those of an access.
    pub(super) fn judge_lanes(
        &self,
        verdict: &Verdict,
        subject: &Subject<'_, '_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let span = subject.new.span;
        if verdict.lanes != subject.access.lanes {
            errors.at(span, "the check is of other lanes");
        }
        if let Err(message) = self.is_under(verdict, subject, input) {
            errors.at(span, message);
        }
    }

    /// Whether a verdict is about all bytes of an access.
    pub(super) fn covers_bytes(
        &self,
        verdict: &Verdict,
        subject: &Subject<'_, '_>,
        declared: Option<u64>,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let Some((_, offset)) = subject.address() else {
            return false;
        };
        let low = verdict.distance.low;
        let Some((skipped, bytes)) = subject.used(input) else {
            // Three steps make a verdict on bytes that are counted.
            let counted = subject.counted(self, input);
            let made = verdict.count.as_ref().filter(|(_, made)| *made == 3);
            return offset == low && counted.as_ref() == made.map(|(count, _)| count);
        };
        if verdict.count.is_some() {
            return false;
        }
        // With a constant size the limit is a constant, too: the bytes that it
        // leaves room for show what was subtracted.
        let span = match (verdict.size.parse::<u64>(), declared) {
            (Ok(0), _) => i64::MAX as u64,
            (Ok(limit), Some(size)) => size.saturating_sub(limit).saturating_add(1),
            _ => verdict.less.saturating_add(1),
        };
        let span = span.min(i64::MAX as u64) as i64;
        let first = offset.wrapping_add(skipped);
        first >= low && first.saturating_add(bytes) <= low.saturating_add(span)
    }

    /// Verifies the record of a verdict: its site, which is that of the first
    /// access with this verdict, the address, and the bounds unless the host
    /// knows them.
    pub(super) fn judge_record(
        &mut self,
        (name, verdict): (&str, &Verdict),
        subject: &Subject<'_, '_>,
        (knows_bounds, declared): (bool, Option<u64>),
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let span = subject.new.span;
        self.reports.needs_bounds |= !knows_bounds;
        let (base, size) = (&verdict.record.base, &verdict.record.size);
        let is_in_space = verdict.record.in_space.is_some();
        let is_of_others = verdict
            .record
            .is_of_others
            .iter()
            .any(|register| match *register {
                ADDRESS => !is_in_space,
                RECORD_BASE => !is_in_space && !knows_bounds && base.is_some(),
                RECORD_SIZE => !is_in_space && !knows_bounds && size.is_some(),
                SPACE_ADDRESS => is_in_space,
                SPACE_BASE => is_in_space && base.is_some(),
                _ => false,
            });
        let says_size = match (size, declared) {
            (None, None) => is_in_space && verdict.size == DYNAMIC,
            // The site has it.
            (None, Some(_)) => verdict.site_has_size() && is_window(subject.access.space),
            (Some(size), Some(declared)) => *size == declared.to_string(),
            (Some(size), None) => *size == verdict.size || verdict.size.parse::<u64>().is_ok(),
        };
        let own_base = &verdict.distance.base;
        let says_base = base.as_ref().map_or(is_in_space, |base| base == own_base);
        let says_bounds = says_base && says_size;
        if let Some(object) = verdict.record.in_space {
            self.reports.must_find.insert(Needed {
                object,
                base: base.is_none().then(|| own_base.clone()),
                is_dynamic: declared.is_none(),
            });
        }
        let [address_in_space, base_in_space] = verdict.record.kept_in_space;
        let is_alike =
            address_in_space == is_in_space && (base.is_none() || base_in_space == is_in_space);
        let is_kept =
            verdict.site.is_some() && verdict.record.has_address && is_alike && !is_of_others;
        if !is_kept || !(knows_bounds || says_bounds) {
            errors.at(
                span,
                "the check does not keep its site and address for the record",
            );
        }
        let Some(site) = verdict.site else { return };
        self.note_needs(verdict, subject, declared, input);
        let writes = !is_window(subject.access.space) && subject.access.effect != Effect::Read;
        let key = (name.to_owned(), site);
        let is_first = !self.sited.contains_key(&key);
        let is_of_kind = *self.sited.entry(key).or_insert(writes) == writes;
        // (A verdict that has told of a read, and then of a write, holds for one more
        // read: its thread has failed with both.)
        let told = (verdict.key(site).0, writes);
        if is_of_kind {
            self.told.insert(told);
        } else if !self.told.contains(&told) {
            errors.at(
                span,
                "the check keeps the site of a read for a write, or the other way round",
            );
        }
        self.unused_sites.remove(&verdict.key(site));
        if is_first && site != self.site_now() {
            errors.at(
                span,
                format!("the check keeps site {site}, not {}", self.site_now()),
            );
        }
    }
}

impl State {
    /// Notes what an access requires of its verdict.
    fn note_needs(
        &mut self,
        verdict: &Verdict,
        subject: &Subject<'_, '_>,
        declared: Option<u64>,
        input: &Input<'_, '_, '_>,
    ) {
        let offset = subject.address().map_or(0, |(_, offset)| offset);
        let used = subject.used(input);
        let bytes = used.map(|(skipped, bytes)| {
            let first = offset.wrapping_add(skipped);
            (first, first.saturating_add(bytes))
        });
        let low = verdict.distance.low;
        let end = match (verdict.size.parse::<u64>(), declared) {
            (Ok(0), _) => None,
            (Ok(limit), Some(size)) => Some(size.saturating_sub(limit).saturating_add(1)),
            _ => Some(verdict.less.saturating_add(1)),
        };
        let end = end.and_then(|span| low.checked_add_unsigned(span));
        let alignment = u64::from(subject.access.alignment);
        let aligns = self.alignments.of(verdict);
        let needs = self.needs.entry(verdict.serial).or_insert(Needs {
            bytes,
            covers: verdict.count.is_none().then_some((low, end)),
            alignment,
            aligns,
            aligned_at: offset,
            blocks: verdict.blocks,
            span: subject.new.span,
        });
        if alignment > needs.alignment {
            (needs.alignment, needs.aligned_at) = (alignment, offset);
        }
        if let (Some(all), Some((first, end))) = (&mut needs.bytes, bytes) {
            *all = (all.0.min(first), all.1.max(end));
        }
    }
}

impl Verdict {
    /// Whether a record of it needs no size: that of the place is constant.
    fn site_has_size(&self) -> bool {
        !is_own(&self.size)
    }
}

/// Whether the host knows the bounds of a root because it passed them to the
/// launch.
pub(super) fn host_knows(extent: extents::Extent, input: &Input<'_, '_, '_>) -> bool {
    let analysis = input.analysis;
    if extent == extents::Extent::Shadow {
        // Only the address counts.
        return true;
    }
    input.launch.is_some()
        && analysis.code.function.is_entry
        && matches!(extent, extents::Extent::Root(root)
            if matches!(analysis.provenance.root(root), Some(Root::KernelParameter { .. })))
}

/// Holds the address that a check selects to the sinks.
fn judge_sink(
    redirect: &Redirect,
    subject: &Subject<'_, '_>,
    input: &Input<'_, '_, '_>,
    errors: &mut Errors<'_>,
) {
    let span = subject.new.span;
    if redirect.verdict.distance.pointer != redirect.pointer {
        errors.at(
            span,
            "the address that is selected is not the one that is checked",
        );
    }
    let start = match subject.access.effect {
        Effect::Read => READ_SINK,
        _ => WRITE_SINK,
    };
    let (_, whole) = subject.address().unwrap_or(("", 0));
    let (skipped, bytes) = subject.used(input).unwrap_or((0, 1));
    let lands = redirect
        .sink
        .wrapping_add(whole.wrapping_add(skipped) as u64);
    if lands < start || lands.wrapping_add(bytes as u64) > start + SINK_SIZE {
        errors.at(span, "the sink is not where this access must go");
    }
    // The hardware checks the alignment of the whole access, used or not.
    let alignment = match subject.access.width {
        Width::Bytes(bytes) => u64::from(bytes).next_power_of_two().min(32),
        _ => u64::from(subject.access.alignment),
    };
    if !redirect
        .sink
        .wrapping_add(whole as u64)
        .is_multiple_of(alignment)
    {
        errors.at(span, "the sink address is not aligned for the access");
    }
}
