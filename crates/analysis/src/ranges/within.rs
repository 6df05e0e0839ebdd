//! Addresses in a variable without the address of the variable itself, which is
//! not known: offsets. A loop may carry an address instead of an index; then
//! what it carries is an offset, too.

use super::affine::{AffineId, Symbolic, SymbolicId};
use super::compile::Compile;
use crate::code::ValueId;
use smallvec::SmallVec;

/// Phis and selections between an address and its variable.
const DEEPEST: usize = 12;

/// Phis that are being followed: they are offsets if their other arguments are.
type Followed = SmallVec<[ValueId; DEEPEST]>;

impl Compile<'_, '_, '_> {
    /// An address minus that of a variable, if it is derived from it.
    pub(super) fn within(&mut self, address: AffineId, variable: SymbolicId) -> Option<AffineId> {
        self.offset(address, variable, &mut Followed::new())
    }

    fn offset(
        &mut self,
        address: AffineId,
        variable: SymbolicId,
        followed: &mut Followed,
    ) -> Option<AffineId> {
        let affine = self.expand.expressions.affine(address).clone();
        let mut rest = affine.clone();
        match affine.factor(variable) {
            1 => {
                rest.terms.retain(|(other, _)| *other != variable);
                return Some(self.expand.expressions.keep(rest));
            }
            0 => {}
            _ => return None,
        }
        // One of the terms is an address.
        for &(symbolic, factor) in &affine.terms {
            if factor != 1 {
                continue;
            }
            let Some(offset) = self.offset_of(symbolic, variable, followed) else {
                continue;
            };
            rest.terms.retain(|(other, _)| *other != symbolic);
            let offset = self.expand.expressions.affine(offset).clone();
            if offset.width != rest.width {
                return None;
            }
            return Some(self.expand.expressions.keep(rest.plus(&offset, 1)));
        }
        None
    }

    fn offset_of(
        &mut self,
        symbolic: SymbolicId,
        variable: SymbolicId,
        followed: &mut Followed,
    ) -> Option<AffineId> {
        let (kind, width) = self.expand.expressions.symbolic(symbolic);
        match kind {
            Symbolic::Sum(affine) => self.offset(affine, variable, followed),
            Symbolic::Select(condition, a, b) => {
                let a = self.offset(a, variable, followed)?;
                let b = self.offset(b, variable, followed)?;
                let select = Symbolic::Select(condition, a, b);
                Some(self.expand.expressions.symbolic_affine(select, width))
            }
            Symbolic::Phi(phi) => self.is_within(phi, variable, followed).then(|| {
                let within = Symbolic::Within(phi, variable);
                self.expand.expressions.symbolic_affine(within, width)
            }),
            _ => None,
        }
    }

    /// Whether all arguments of a phi are derived from a variable, given that
    /// the followed phis are.
    fn is_within(&mut self, phi: ValueId, variable: SymbolicId, followed: &mut Followed) -> bool {
        if followed.contains(&phi) {
            return true;
        }
        if followed.len() >= DEEPEST {
            return false;
        }
        let before = followed.len();
        followed.push(phi);
        let analysis = self.analysis();
        let block = analysis.ssa.values[phi.0 as usize].block;
        let predecessors = &analysis.cfg.blocks[block.0 as usize].predecessors;
        let is_within = predecessors
            .iter()
            .filter(|from| analysis.cfg.is_reachable(**from))
            .all(|&from| {
                let argument = self.expand.argument(phi, from);
                argument.is_some_and(|address| self.offset(address, variable, followed).is_some())
            });
        if !is_within {
            // What was shown of other phis since may rest on this one.
            followed.truncate(before);
        }
        is_within
    }
}
