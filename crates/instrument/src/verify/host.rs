//! Limits that the host computes for a launch, as the tables say that it does.

use super::checks::{is_shared_limit, name};
use crate::output::{EntryPlan, LaunchIndex, LaunchLimit};
use crate::parameters;
use analysis::{Analysis, Root};
use model::layout::{LAUNCH_PARAMETER, LaunchBounds, LaunchHeader};
use ptx::{Instruction, Mnemonic, OperandKind};

/// The limits in an entry's launch parameter, behind the bounds.
#[derive(Clone, Copy, Default)]
pub(super) struct HostLimits<'x> {
    /// Offsets of the pointers whose bounds come first.
    roots: &'x [u32],
    /// The limits.
    pub(super) limits: &'x [LaunchLimit],
    /// The ranges of indices behind them.
    pub(super) indices: &'x [LaunchIndex],
}

/// A limit that check code loads.
pub(super) struct Loaded<'a> {
    /// Number of the root whose size it is of.
    pub(super) root: u32,
    /// Bytes of the access, less one.
    pub(super) less: u64,
    /// The parameter that it depends on, bytes into it, what is added to the pointer
    /// there, and the alignment of the sum.
    pub(super) pointer: Option<(&'a str, i64, i64, u64)>,
    /// Its place in the launch parameter.
    pub(super) place: u64,
}

impl<'x> HostLimits<'x> {
    /// Those of a kernel.
    pub(super) fn of(entries: &'x [EntryPlan], kernel: &str) -> HostLimits<'x> {
        let entry = entries.iter().find(|entry| entry.name == kernel);
        entry.map_or(HostLimits::default(), |entry| HostLimits {
            roots: &entry.roots,
            limits: &entry.limits,
            indices: &entry.indices,
        })
    }

    /// The offset of a pointer among the parameters, by its place in the launch parameter.
    pub(super) fn parameter(&self, root: u32) -> Option<u32> {
        self.roots.get(root as usize).copied()
    }

    /// Bytes of the launch parameter before the limits.
    fn bounds(&self) -> usize {
        size_of::<LaunchHeader>() + size_of::<LaunchBounds>() * self.roots.len()
    }

    /// Bytes of the launch parameter before the ranges of indices.
    pub(super) fn ranges(&self) -> usize {
        self.bounds() + size_of::<u64>() * self.limits.len()
    }

    /// The limit that an instruction of check code loads; `None` if it loads none.
    pub(super) fn loaded<'a>(
        &self,
        instruction: &Instruction<'_>,
        analysis: &Analysis<'_, 'a>,
    ) -> Option<Loaded<'a>> {
        let is_load = instruction.opcode.mnemonic() == Mnemonic::Ld;
        if !is_load || !is_shared_limit(name(instruction, 0)?) {
            return None;
        }
        let OperandKind::Address(address) = &instruction.operands.get(1)?.kind else {
            return None;
        };
        if address.base != Some(LAUNCH_PARAMETER) {
            return None;
        }
        let place = u64::try_from(address.offset).ok()?;
        let behind = usize::try_from(place).ok()?.checked_sub(self.bounds())?;
        let limit = self.limits.get(behind / size_of::<u64>())?;
        if !behind.is_multiple_of(size_of::<u64>()) || !limit.alignment.is_power_of_two() {
            return None;
        }
        let offset = self.parameter(limit.root)?;
        let mut roots = analysis.provenance.roots.iter();
        let root = roots.position(|root| *root == Root::KernelParameter { offset })?;
        let pointer = match limit.alignment {
            1 => None,
            bytes => {
                let (name, at) = parameters::holding(analysis.code.function, offset)?;
                let residue = i64::try_from(limit.residue).ok()?;
                Some((name, i64::from(at), residue, bytes))
            }
        };
        Some(Loaded {
            root: root as u32,
            less: limit.less,
            pointer,
            place,
        })
    }
}
