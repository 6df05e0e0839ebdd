//! The mask of lanes is in the instruction, where it is a constant: compilers put it
//! into a register, of which the verifier would not know that it holds all lanes.

use super::super::refuse::Refusals;
use super::strides;
use ptx::table::Convergence;
use ptx::{Edits, Instruction, Module, OperandKind};

pub(super) fn constant(module: &Module<'_>, _: &mut Refusals<'_>) -> Option<String> {
    let mut edits = Edits::new();
    for function in module.functions() {
        let mut named = function.instructions().filter_map(mask).peekable();
        if named.peek().is_none() {
            continue;
        }
        let constants = strides::constants(function);
        for (operand, register) in named {
            if let Some(Some(value)) = constants.get(register) {
                edits.replace(operand.span, (*value as u32).to_string());
            }
        }
    }
    (!edits.is_empty()).then(|| edits.apply(module.source))
}

/// The register that holds the mask of an instruction for several lanes.
fn mask<'i, 'a>(instruction: &'i Instruction<'a>) -> Option<(&'i ptx::Operand<'a>, &'a str)> {
    let info = ptx::table::classify(instruction)?;
    let mask = instruction.operands.last()?;
    match mask.kind {
        OperandKind::Name(name) if info.convergence == Convergence::Mask => Some((mask, name)),
        _ => None,
    }
}
