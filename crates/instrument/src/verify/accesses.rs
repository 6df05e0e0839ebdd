//! Holds each of the program's accesses to the check that it goes through.

use super::Errors;
use super::checks::{Input, Redirect, State, Verdict};
use super::facts::is_settled;
use crate::protocol::REGISTER_PREFIX;
use analysis::{Origin, Referent, Root, SymbolSpace};
use model::layout::{READ_SINK, SINK_SIZE, WRITE_SINK};
use ptx::table::{Access, Effect, Info, Space, Width, classify, used_bytes};
use ptx::{Instruction, OperandKind};

impl State {
    /// Holds the accesses of one of the program's instructions to checks.
    pub(super) fn access(
        &self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some(info) = classify(old) else { return };
        for access in &info.accesses {
            let generic = match access.space {
                Space::Global => false,
                Space::Generic => true,
                Space::Tensor => continue,
                _ => {
                    self.access_in_window(old, new, access, input, errors);
                    continue;
                }
            };
            let (Some(OperandKind::Address(from)), Some(OperandKind::Address(to))) = (
                old.operands.get(access.operand).map(|o| &o.kind),
                new.operands.get(access.operand).map(|o| &o.kind),
            ) else {
                continue;
            };
            let redirected = to
                .base
                .is_some_and(|base| base.starts_with(REGISTER_PREFIX));
            let original = from.base.unwrap_or("");
            if !redirected {
                let taken_out = self
                    .takes_out(old, new)
                    .into_iter()
                    .filter_map(|name| self.verdicts.get(&name))
                    .find(|verdict| self.is_of(&verdict.distance.pointer, original));
                if let Some(verdict) = taken_out {
                    self.judge(verdict, from.offset, access, old, new, input, errors);
                } else if !self.may_go_unchecked(old, (&info, access), generic, input) {
                    errors.at(new.span, "a global or generic access without a check");
                }
                continue;
            }
            let base = to.base.unwrap_or("");
            let Some(redirect) = self.redirects.get(base) else {
                errors.at(
                    new.span,
                    format!("`{base}` is not selected by a check in this block"),
                );
                continue;
            };
            if !self.is_of(&redirect.pointer, original) {
                errors.at(
                    new.span,
                    format!(
                        "the check is of `{}`, not of `{original}`",
                        redirect.pointer
                    ),
                );
            }
            let verdict = &redirect.verdict;
            let bytes = self.judge(verdict, from.offset, access, old, new, input, errors);
            self.judge_sink(redirect, from.offset, bytes, access, new, errors);
        }
    }

    /// Whether a checked pointer is the address that an operand names.
    fn is_of(&self, pointer: &str, original: &str) -> bool {
        let holds_symbol = self.symbols.get(pointer).map(String::as_str) == Some(original);
        pointer == self.resolve(original) || holds_symbol
    }

    /// Holds an access to a verdict; returns the first byte and the bytes that
    /// it covers, where these are known.
    #[allow(clippy::too_many_arguments)]
    fn judge(
        &self,
        verdict: &Verdict,
        offset: i64,
        access: &Access,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) -> (i64, Option<i64>) {
        if verdict.distance.base != "%__rf_wb" && is_in_doubt(old, access, input) {
            errors.at(
                new.span,
                "what may be no pointer is all that tells the bounds of the access",
            );
        }
        if verdict.lanes != access.lanes {
            errors.at(new.span, "the check is of other lanes");
        }
        if !verdict.kept {
            errors.at(
                new.span,
                "the check does not keep its site and address for the record",
            );
        }
        match self.guard_of(old) {
            Some(guard) if !verdict.guards.contains(&guard) => {
                errors.at(new.span, "the check is not under the access's guard");
            }
            _ => {}
        }
        let spare = verdict
            .guards
            .iter()
            .filter(|guard| Some((*guard).clone()) != self.guard_of(old))
            .count();
        if spare > usize::from(matches!(access.width, Width::CopySource { .. })) {
            errors.at(
                new.span,
                "the check is under a guard that the access does not have",
            );
        }
        let is_aligned = |&index| self.is_aligned(verdict, (offset, index), access, input);
        if !input.index.get(&old.span.start).is_some_and(is_aligned) {
            errors.at(new.span, "the check lets misaligned addresses pass");
        }
        let (offset, bytes) = match (access.width, input.index.get(&old.span.start)) {
            (Width::Bytes(bytes), Some(&index)) => {
                let inst = &input.analysis.code.instructions[index];
                let (from, to) =
                    used_bytes(inst.instruction, u64::from(bytes), input.attached(index));
                (offset.wrapping_add(from as i64), Some((to - from) as i64))
            }
            _ => (offset, None),
        };
        let span = verdict.less.saturating_add(1).min(i64::MAX as u64) as i64;
        let constant_size = verdict.size.parse::<u64>().ok();
        if let (Some(bytes), false) = (bytes, verdict.dynamic) {
            let low = verdict.distance.low;
            // With a constant size the limit is a constant too: the bytes
            // that it leaves room for show what was subtracted.
            let span = match (
                constant_size,
                self.declared_size(&verdict.distance.base, input),
            ) {
                (Some(limit), Some(size)) => (size.saturating_sub(limit))
                    .saturating_add(1)
                    .min(i64::MAX as u64) as i64,
                _ => span,
            };
            let zero_limit = constant_size == Some(0);
            if offset < low
                || (!zero_limit && offset.saturating_add(bytes) > low.saturating_add(span))
            {
                errors.at(new.span, "the check covers other bytes than the access");
            }
        }
        if !paired(
            &verdict.distance.base,
            &verdict.size,
            self.declared_size(&verdict.distance.base, input),
        ) {
            let (base, size) = (&verdict.distance.base, &verdict.size);
            errors.at(
                new.span,
                format!("`{base}` and `{size}` are not base and size of one thing"),
            );
        }
        (offset, bytes)
    }

    /// Holds the address that a check selects to the sinks.
    fn judge_sink(
        &self,
        redirect: &Redirect,
        whole: i64,
        (offset, bytes): (i64, Option<i64>),
        access: &Access,
        new: &Instruction<'_>,
        errors: &mut Errors<'_>,
    ) {
        if redirect.verdict.distance.pointer != redirect.pointer {
            errors.at(
                new.span,
                "the address that is selected is not the one that is checked",
            );
        }
        let (start, width) = (
            if access.effect == Effect::Read {
                READ_SINK
            } else {
                WRITE_SINK
            },
            bytes.unwrap_or(1) as u64,
        );
        let lands = redirect.sink.wrapping_add(offset as u64);
        if lands < start || lands.wrapping_add(width) > start + SINK_SIZE {
            errors.at(new.span, "the sink is not where this access must go");
        }
        // What the hardware aligns is the access as it stands, used or not.
        if let Width::Bytes(bytes) = access.width
            && !redirect
                .sink
                .wrapping_add(whole as u64)
                .is_multiple_of(u64::from(bytes).next_power_of_two().min(32))
        {
            errors.at(new.span, "the sink address is not aligned for the access");
        }
    }

    /// Size of the variable whose address a register holds.
    pub(super) fn declared_size(&self, base: &str, input: &Input<'_, '_, '_>) -> Option<u64> {
        if let Some(place) = self.windows.place(base) {
            return place.size(base, input);
        }
        let name = self.symbols.get(base)?;
        input
            .analysis
            .code
            .symbols
            .iter()
            .find(|s| s.name == name)
            .or_else(|| input.symbols.get(name))?
            .size
    }

    fn may_go_unchecked(
        &self,
        old: &Instruction<'_>,
        (info, access): (&Info, &Access),
        generic: bool,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        if access.width == Width::Descriptor
            || old.opcode.base() == "multimem"
            || (generic && info.is_shared_only)
        {
            return true;
        }
        let Some(&index) = input.index.get(&old.span.start) else {
            return false;
        };
        let code = &input.analysis.code;
        let Some(reference) = code.address_of(index, access.operand) else {
            return true;
        };
        match reference.referent {
            Referent::Symbol(id, _) => {
                let symbol = &code.symbols[id.0 as usize];
                symbol.space != SymbolSpace::Global || is_settled(input.analysis, index, access)
            }
            Referent::Wide(_) => match input.analysis.provenance.origin(reference.value) {
                Origin::Pointer { root, .. } => match input.analysis.provenance.root(root) {
                    Some(Root::ParameterWindow) => true,
                    Some(
                        Root::Declared { .. }
                        | Root::Alloca { .. }
                        | Root::Mapped { .. }
                        | Root::Field { .. },
                    ) => false,
                    Some(Root::Whole { symbol } | Root::Part { symbol, .. })
                        if input.nameable.holds(code, symbol)
                            && input.analysis.place(root).is_some() =>
                    {
                        is_settled(input.analysis, index, access)
                    }
                    Some(root) if !root.is_global() => generic,
                    _ => is_settled(input.analysis, index, access),
                },
                _ => false,
            },
        }
    }
}

/// Whether the root of an address may turn out to be no pointer.
fn is_in_doubt(old: &Instruction<'_>, access: &Access, input: &Input<'_, '_, '_>) -> bool {
    let Some(&index) = input.index.get(&old.span.start) else {
        return false;
    };
    let reference = input.analysis.code.address_of(index, access.operand);
    reference.is_some_and(|reference| {
        matches!(reference.referent, Referent::Wide(_))
            && input
                .analysis
                .provenance
                .origin(reference.value)
                .is_in_doubt()
    })
}

/// Whether two operands are the base and the size of the same thing.
pub(super) fn paired(base: &str, size: &str, declared: Option<u64>) -> bool {
    if let Ok(limit) = size.parse::<u64>() {
        // A variable of declared size, or bounds that hold nothing off.
        return declared.is_some_and(|size| limit <= size) || base.parse::<u64>().is_ok();
    }
    let number = |text: &str, family: &str| {
        text.strip_prefix(REGISTER_PREFIX)?
            .strip_prefix(family)?
            .parse::<u32>()
            .ok()
    };
    if [("%__rf_wb", "%__rf_ws"), ("%__rf_rb", "%__rf_rs")].contains(&(base, size)) {
        return true;
    }
    [("b", "s"), ("hb", "hs"), ("pb", "ps")]
        .iter()
        .any(|(b, s)| {
            let (base, size) = (number(base, b), number(size, s));
            base.is_some() && base == size
        })
}
