//! Checks of accesses by index (`crate::indexed`): an index is compared with a range that
//! the host computes. Such a check does not name the address. It is about the address that
//! it keeps for the record, if the program's next instruction accesses that, and the index
//! is that of the address there.

use super::checks::{Input, State, Text, name};
use super::verdicts::Distance;
use super::written::{number, reads, root};
use crate::indexed::Indexed;
use crate::output::LaunchIndex;
use crate::parameters;
use crate::protocol::family::{INDEX_FROM, INDEX_SPAN, KEPT};
use crate::protocol::register::{OFFSET32, OUTSIDE};
use analysis::Root;
use model::layout::{LAUNCH_PARAMETER, LaunchRange};
use ptx::table::Access;
use ptx::{Instruction, OperandKind};

/// An index that a verdict compares.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    /// The program's register.
    index: Text,
    /// Number of the range.
    range: u32,
}

impl State {
    /// Reads a range of indices at the top of a body. Answers where that ends.
    pub(super) fn range_at_head(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let ranges = input.host.indices.len();
        let each = size_of::<LaunchRange>();
        let span_at = std::mem::offset_of!(LaunchRange, span);
        let number = self.roots.ranges as usize;
        if number >= ranges {
            return None;
        }
        let place = input.host.ranges() + number * each;
        let expected = format!(
            "ld.param.b32 {INDEX_FROM}{number}, [{LAUNCH_PARAMETER}+{place}]; \
             ld.param.b32 {INDEX_SPAN}{number}, [{LAUNCH_PARAMETER}+{}]; ",
            place + span_at
        );
        let end = reads(input.new, at, &expected)?;
        self.roots.ranges += 1;
        let pointer = self.pointer_of(number as u32, input);
        self.alignments
            .loaded(&format!("{INDEX_SPAN}{number}"), pointer);
        Some(end)
    }

    /// The parameter that a range depends on where its alignment does: its name, bytes into
    /// it, what is added, and the alignment of the sum.
    fn pointer_of<'a>(
        &self,
        range: u32,
        input: &Input<'_, '_, 'a>,
    ) -> Option<(&'a str, i64, i64, u64)> {
        let range = input.host.indices.get(range as usize)?;
        if range.alignment == 1 {
            return None;
        }
        let offset = input.host.parameter(range.root)?;
        let (name, at) = parameters::holding(input.analysis.code.function, offset)?;
        let residue = i64::try_from(range.residue).ok()?;
        Some((name, i64::from(at), residue, range.alignment))
    }

    /// Follows `setp.gt verdict, index - from, span`.
    pub(super) fn index_code(&mut self, instruction: &Instruction<'_>, predicate: &str) -> bool {
        let is_verdict = predicate == OUTSIDE || number(predicate, KEPT).is_some();
        let is_guarded = match instruction.opcode.text {
            "setp.gt.u32" => false,
            "setp.gt.and.u32" => true,
            _ => return false,
        };
        if !is_verdict || instruction.guard.is_some() || name(instruction, 1) != Some(OFFSET32) {
            return false;
        }
        let span = name(instruction, 2).and_then(|name| number(name, INDEX_SPAN));
        let Some(Distance {
            pointer: index,
            base,
            low: 0,
            ..
        }) = self.windows.distance().cloned()
        else {
            return false;
        };
        let Some(range) = span.filter(|span| number(&base, INDEX_FROM) == Some(*span)) else {
            return false;
        };
        let guards = is_guarded.then(|| self.text(instruction, 3));
        // Which address it is about is not known yet.
        self.distance = Some(Distance::default());
        self.begin(predicate, Text::new(), 0, guards.into_iter().collect());
        if let Some(verdict) = self.verdicts.get_mut(predicate) {
            verdict.compared = Some(Compared { index, range });
        }
        true
    }

    /// The program's next instruction is here: what checks by index before it are about.
    pub(super) fn settle_indices(
        &mut self,
        index: usize,
        accesses: &[Access],
        input: &Input<'_, '_, '_>,
    ) {
        let open: Vec<Text> = self
            .verdicts
            .iter()
            .filter(|(_, verdict)| verdict.compared.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for verdict in open {
            let found = accesses
                .iter()
                .find_map(|access| self.indexed(&verdict, (index, access.operand), input));
            let known = self.verdicts.get_mut(&verdict);
            match (known, found) {
                (Some(known), Some((distance, range, number))) => {
                    let (_, size) = root(range.0);
                    known.compared = None;
                    known.record.has_address = true;
                    known.distance = distance;
                    known.size = size;
                    known.less = range.1;
                    known.limit = Some(format!("{INDEX_SPAN}{number}"));
                }
                _ => drop(self.verdicts.remove(&verdict)),
            }
        }
    }

    /// How far the address of an access is from the base of its root, if a verdict is about
    /// its index; the root, the bytes less one, and the number of the range.
    fn indexed(
        &self,
        verdict: &str,
        (index, operand): (usize, usize),
        input: &Input<'_, '_, '_>,
    ) -> Option<(Distance, (u32, u64), u32)> {
        let verdict = self.verdicts.get(verdict)?;
        let compared = verdict.compared.as_ref()?;
        let instruction = input.analysis.code.instructions[index].instruction;
        let OperandKind::Address(address) = &instruction.operands.get(operand)?.kind else {
            return None;
        };
        let pointer = self.resolve(address.base?);
        if verdict.record.address.as_ref() != Some(&pointer) || compared.range >= self.roots.ranges
        {
            return None;
        }
        let range: &LaunchIndex = input.host.indices.get(compared.range as usize)?;
        let parameter = input.host.parameter(range.root)?;
        let Indexed {
            parameter: own,
            index: register,
            is_signed,
            scale,
            offset,
            ..
        } = input.indices.of_access(index, operand)?;
        let is_it = own == parameter
            && self.resolve(register) == compared.index
            && (is_signed, scale) == (range.is_signed, range.scale);
        let mut roots = input.analysis.provenance.roots.iter();
        let number = roots.position(|root| *root == Root::KernelParameter { offset: parameter })?;
        let distance = Distance {
            pointer,
            base: root(number as u32).0,
            low: range.first.checked_sub(offset)?,
            generic: None,
        };
        is_it.then_some((distance, (number as u32, range.less), compared.range))
    }
}
