//! Addresses that were derived from one of several pointers: two buffers that
//! take turns, a pointer chosen by a condition. Each access is one check for
//! each pointer that the address may come from, where it comes from that one.

use super::affine::{Affine, AffineId};
use super::compile::Compile;
use super::facts::Context;
use super::program::NodeId;
use crate::code::{Referent, ValueId};
use crate::origin::{Origin, Root};
use crate::ssa::Definition;
use ptx::{Mnemonic, Modifier, OperandKind};
use smallvec::SmallVec;

/// Pointers that an address may come from, and steps on the way there.
const MOST: usize = 8;
const DEEPEST: u32 = 24;

/// An address, where it comes from the pointer at this offset of the parameters.
pub(super) struct Choice {
    pub(super) address: NodeId,
    pub(super) parameter: u32,
}

/// What is added to a pointer on the way to the access.
#[derive(Clone, PartialEq, Eq)]
struct Added {
    /// Of the same iteration of all loops.
    sum: AffineId,
    /// Of others.
    ranges: SmallVec<[NodeId; 4]>,
}

/// The way from an access back to the pointers.
struct Walk {
    phis: Vec<(ValueId, Added)>,
    choices: Vec<Choice>,
}

impl Compile<'_, '_, '_> {
    /// The choices for the address in an operand; `None` if one of them is not
    /// followed.
    pub(super) fn choices(
        &mut self,
        at: u32,
        operand: usize,
        context: Context,
    ) -> Option<Vec<Choice>> {
        let reference = *self.analysis().code.named(at as usize, operand)?;
        let Referent::Wide(_) = reference.referent else {
            return None;
        };
        let added = Added {
            sum: self.expand.expressions.constant(0, 64),
            ranges: SmallVec::new(),
        };
        let mut walk = Walk {
            phis: Vec::new(),
            choices: Vec::new(),
        };
        self.choose(&mut walk, reference.value, &added, context, 0)?;
        Some(walk.choices)
    }

    fn choose(
        &mut self,
        walk: &mut Walk,
        value: ValueId,
        added: &Added,
        context: Context,
        depth: u32,
    ) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        let analysis = self.analysis();
        match analysis.provenance.origin(value) {
            Origin::Pointer { root, .. } => match analysis.provenance.root(root)? {
                Root::KernelParameter { offset } => {
                    self.chosen(walk, value, added, context, offset)
                }
                _ => None,
            },
            Origin::Several { .. } => match self.expand.definition_of(value) {
                Definition::Phi { .. } => self.choose_argument(walk, value, added, context, depth),
                Definition::Instruction {
                    instruction, old, ..
                } => self.choose_operand(walk, (instruction, old), added, context, depth),
                Definition::Undefined => None,
            },
            _ => None,
        }
    }

    fn chosen(
        &mut self,
        walk: &mut Walk,
        value: ValueId,
        added: &Added,
        context: Context,
        parameter: u32,
    ) -> Option<()> {
        let pointer = self.expand.value(value);
        if self.expand.expressions.affine(pointer).width != 64 || walk.choices.len() >= MOST {
            return None;
        }
        let sum = self.expand.sum(pointer, added.sum, 1);
        let own = self.value_where(sum, context);
        let mut terms: SmallVec<[(NodeId, i64); 4]> = SmallVec::new();
        terms.push((own, 1));
        terms.extend(added.ranges.iter().map(|range| (*range, 1)));
        let address = self.sum_node(&terms, 0, 64);
        walk.choices.push(Choice { address, parameter });
        Some(())
    }

    fn choose_argument(
        &mut self,
        walk: &mut Walk,
        phi: ValueId,
        added: &Added,
        context: Context,
        depth: u32,
    ) -> Option<()> {
        let mut passed = added.clone();
        if *self.expand.expressions.affine(added.sum) != Affine::constant(0, 64) {
            let range = self.value(added.sum, context);
            passed.ranges.push(range);
            passed.sum = self.expand.expressions.constant(0, 64);
        }
        if let Some((_, before)) = walk.phis.iter().find(|(known, _)| *known == phi) {
            // A loop that only passes the pointer on.
            return (*before == passed).then_some(());
        }
        walk.phis.push((phi, passed.clone()));
        let analysis = self.analysis();
        let block = analysis.ssa.values[phi.0 as usize].block;
        for &from in &analysis.cfg.blocks[block.0 as usize].predecessors {
            if !analysis.cfg.is_reachable(from) {
                continue;
            }
            let argument = analysis.ssa.phi_argument(&analysis.cfg, phi, from)?;
            let edge = self.edge(from, block);
            self.choose(walk, argument, &passed, edge, depth + 1)?;
        }
        Some(())
    }

    fn choose_operand(
        &mut self,
        walk: &mut Walk,
        (at, old): (u32, Option<ValueId>),
        added: &Added,
        context: Context,
        depth: u32,
    ) -> Option<()> {
        let analysis = self.analysis();
        let instruction = analysis.code.instructions[at as usize].instruction;
        let opcode = &instruction.opcode;
        let wide = |operand: usize| {
            let reference = analysis.code.named(at as usize, operand)?;
            matches!(reference.referent, Referent::Wide(_)).then_some(reference.value)
        };
        let mut context = context;
        if let Some(old) = old {
            let guard = instruction.guard?;
            let condition = self.expand.guard(at, guard.negated);
            let kept = self.assume(context, condition, false, 0);
            self.choose(walk, old, added, kept, depth + 1)?;
            context = self.assume(context, condition, true, 0);
        }
        match opcode.mnemonic() {
            Mnemonic::Mov => self.choose(walk, wide(1)?, added, context, depth + 1),
            Mnemonic::Cvta if opcode.has(Modifier::Global) => {
                self.choose(walk, wide(1)?, added, context, depth + 1)
            }
            Mnemonic::Selp => {
                let condition = self.expand.predicate_operand(at, 3)?;
                let first = self.assume(context, condition, true, 0);
                self.choose(walk, wide(1)?, added, first, depth + 1)?;
                let second = self.assume(context, condition, false, 0);
                self.choose(walk, wide(2)?, added, second, depth + 1)
            }
            Mnemonic::Add if opcode.types().all(|ty| ty.bytes() == 8) => {
                let is_number = |operand: usize| match &instruction.operands.get(operand)?.kind {
                    OperandKind::Integer(_) => Some(true),
                    _ => Some(matches!(
                        analysis.provenance.origin(wide(operand)?),
                        Origin::Integer | Origin::Null
                    )),
                };
                let (pointer, number) = match (is_number(1)?, is_number(2)?) {
                    (false, true) => (1, 2),
                    (true, false) => (2, 1),
                    _ => return None,
                };
                let number = self.expand.operand(at, number, 64)?;
                let added = Added {
                    sum: self.expand.sum(added.sum, number, 1),
                    ranges: added.ranges.clone(),
                };
                self.choose(walk, wide(pointer)?, &added, context, depth + 1)
            }
            _ => None,
        }
    }
}
