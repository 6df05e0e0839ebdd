//! Pointers into one of several constant variables: a program selects one, and then
//! indexes it. Which it is, is known only when it runs; which it may be, from the text.

use analysis::{Analysis, Definition, Referent, Role, SymbolId, SymbolSpace, ValueId};
use ptx::Mnemonic;
use std::collections::BTreeSet;

/// The most variables that are told apart at an access.
const MOST: usize = 8;
/// Values that are looked at for one access.
const STEPS: u32 = 256;

/// The constant variables that a pointer may point into: all that are selected from.
/// `None` where something else may be in it, or there are too many.
pub(super) fn constants(analysis: &Analysis<'_, '_>, value: ValueId) -> Option<Vec<SymbolId>> {
    let mut search = Search {
        analysis,
        steps: STEPS,
    };
    let mut found = Found::default();
    let is_pointer = search.is_pointer(value, &mut found);
    let few = (1..=MOST).contains(&found.variables.len());
    (is_pointer && few).then(|| found.variables.into_iter().map(SymbolId).collect())
}

struct Search<'x, 'm, 'a> {
    analysis: &'x Analysis<'m, 'a>,
    steps: u32,
}

/// What a pointer was followed through.
#[derive(Clone, Default)]
struct Found {
    seen: BTreeSet<u32>,
    /// Numbers of symbols.
    variables: BTreeSet<u32>,
}

impl Search<'_, '_, '_> {
    /// Whether a value is a pointer into constant variables on every path, also if it is
    /// one that is being followed.
    fn is_pointer(&mut self, value: ValueId, found: &mut Found) -> bool {
        if !found.seen.insert(value.0) {
            return true;
        }
        self.steps = self.steps.saturating_sub(1);
        let analysis = self.analysis;
        let Some(definition) = analysis.ssa.value(value).map(|value| value.definition) else {
            return false;
        };
        if self.steps == 0 {
            return false;
        }
        match definition {
            Definition::Undefined => false,
            Definition::Phi { .. } => {
                let mut arguments = analysis.ssa.phi_arguments(value).iter();
                arguments.all(|one| *one == ValueId::NONE || self.is_pointer(*one, found))
            }
            Definition::Instruction { old: Some(_), .. } => false,
            Definition::Instruction { instruction, .. } => {
                self.is_made(instruction as usize, found)
            }
        }
    }

    fn is_made(&mut self, at: usize, found: &mut Found) -> bool {
        let opcode = &self.analysis.code.instructions[at].instruction.opcode;
        match opcode.mnemonic() {
            Mnemonic::Mov => self.is_operand(at, 1, found),
            Mnemonic::Selp => self.is_operand(at, 1, found) && self.is_operand(at, 2, found),
            Mnemonic::Sub => self.is_operand(at, 1, found),
            Mnemonic::Add => {
                // What is added to it is no pointer, or it is not known which is.
                let before = found.clone();
                if self.is_operand(at, 1, found) {
                    return !self.is_operand(at, 2, &mut before.clone());
                }
                *found = before;
                self.is_operand(at, 2, found)
            }
            _ => false,
        }
    }

    fn is_operand(&mut self, at: usize, operand: u8, found: &mut Found) -> bool {
        let code = &self.analysis.code;
        let mut references = code.references_of(at).iter();
        let is_it = |r: &&analysis::Reference| {
            r.operand == operand && r.element == 0 && r.role == Role::Read
        };
        let Some(reference) = references.find(is_it) else {
            return false;
        };
        match reference.referent {
            Referent::Symbol(id, _) => {
                let is_constant = code.symbols[id.0 as usize].space == SymbolSpace::Const;
                found.variables.extend(is_constant.then_some(id.0));
                is_constant
            }
            Referent::Wide(_) => self.is_pointer(reference.value, found),
            Referent::Other(_) => false,
        }
    }
}
