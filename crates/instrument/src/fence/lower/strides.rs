//! The distance between the rows of a matrix (`wmma`) is in the instruction, where
//! it is a constant: compilers put it into a register, of which a fence would not
//! know how far the access reaches.

use super::super::refuse::Refusals;
use ptx::table::{Role, Width};
use ptx::{Edits, Function, Instruction, Mnemonic, Module, OperandKind, Statement, VariableSpace};
use rustc_hash::FxHashMap;

pub(super) fn constant(module: &Module<'_>, _: &mut Refusals<'_>) -> Option<String> {
    let mut edits = Edits::new();
    for function in module.functions() {
        let is_matrix = |i: &Instruction<'_>| i.opcode.mnemonic() == Mnemonic::Wmma;
        if !function.instructions().any(is_matrix) {
            continue;
        }
        let constants = constants(function);
        for instruction in function.instructions().filter(|i| is_matrix(i)) {
            let Some(operand) = stride(instruction).and_then(|at| instruction.operands.get(at))
            else {
                continue;
            };
            let OperandKind::Name(register) = operand.kind else {
                continue;
            };
            if let Some(Some(value)) = constants.get(register) {
                edits.replace(operand.span, value.to_string());
            }
        }
    }
    (!edits.is_empty()).then(|| edits.apply(module.source))
}

/// The operand that is the distance between rows.
fn stride(instruction: &Instruction<'_>) -> Option<usize> {
    let info = ptx::table::classify(instruction)?;
    info.accesses.iter().find_map(|access| match access.width {
        Width::Matrix { stride, .. } => stride,
        _ => None,
    })
}

/// The registers that one instruction alone writes, a move of a constant: the
/// constant. `None` for all others that are written.
pub(super) fn constants<'a>(function: &Function<'a>) -> FxHashMap<&'a str, Option<i64>> {
    let mut out: FxHashMap<&str, Option<i64>> = FxHashMap::default();
    for instruction in function.instructions() {
        let is_move = instruction.opcode.mnemonic() == Mnemonic::Mov
            && instruction.guard.is_none()
            && instruction.opcode.types().all(|ty| ty.bytes() == 4);
        let value = match &instruction.operands[..] {
            [_, source] if is_move => match source.kind {
                OperandKind::Integer(value) => Some(value),
                _ => None,
            },
            _ => None,
        };
        for name in written(instruction) {
            out.entry(name)
                .and_modify(|known| *known = None)
                .or_insert(value);
        }
    }
    // In a scope, the same name may be that of another register.
    for (depth, statement) in function.statements() {
        if let Statement::Variable(variable) = statement
            && variable.space == VariableSpace::Reg
            && depth > 0
        {
            out.retain(|name, _| !name.starts_with(variable.name));
        }
    }
    out
}

/// All registers that an instruction may write.
fn written<'a>(instruction: &Instruction<'a>) -> Vec<&'a str> {
    let info = ptx::table::classify(instruction);
    let is_call = instruction.opcode.mnemonic() == Mnemonic::Call;
    let mut out = Vec::new();
    for (index, operand) in instruction.operands.iter().enumerate() {
        let role = info
            .as_ref()
            .and_then(|info| info.roles.get(index).copied());
        let is_written = match role {
            _ if is_call => index == 0,
            Some(role) => matches!(role, Role::Destination | Role::Both),
            None => info.is_none(),
        };
        if is_written {
            operand.names(&mut |name| out.push(name));
        }
    }
    out
}
