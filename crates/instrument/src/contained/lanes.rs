//! Operands of barriers and of exchanges between lanes: what the device has no
//! answer to would end the context.
//!
//! A barrier of a block is the first one, for all of its threads: one that is for some
//! of them, or another one beside it, may never open, and a thread that waits there
//! cannot be ended (`waits`). And it has no operation: where warps come to a barrier with
//! different ones, the device ends the context. A mask of lanes holds the lane that executes the
//! instruction (PTX ISA, 9.7.13). It is the constant of all lanes, or the result of the
//! instructions in [`Registers`] that force it to be one.

use super::known::{Known, Registers};
use ptx::{Instruction, Mnemonic, Modifier, OperandKind};

/// What is wrong with an instruction, if anything is.
pub(super) fn judge(
    instruction: &Instruction<'_>,
    registers: &Registers<'_>,
) -> Result<(), &'static str> {
    let opcode = &instruction.opcode;
    let kinds: Vec<&OperandKind<'_>> = instruction.operands.iter().map(|o| &o.kind).collect();
    let is_sync = opcode.has(Modifier::Sync);
    match opcode.mnemonic() {
        Mnemonic::Bar if opcode.has(Modifier::Warp) => mask(kinds.last(), registers),
        Mnemonic::Shfl | Mnemonic::Vote if !is_sync => {
            Err("lanes meet without a mask, which devices no longer have")
        }
        Mnemonic::Shfl | Mnemonic::Vote | Mnemonic::Match | Mnemonic::Redux | Mnemonic::Elect => {
            mask(kinds.last(), registers)
        }
        Mnemonic::Bar | Mnemonic::Barrier if !opcode.has(Modifier::Cluster) => {
            if opcode.has(Modifier::Red) {
                return Err("a barrier with an operation, where others may have another");
            }
            let [id] = &kinds[..] else {
                return Err("a barrier that may wait for some threads only");
            };
            let is_first = matches!(id, OperandKind::Integer(0)) && !opcode.has(Modifier::Arrive);
            is_first
                .then_some(())
                .ok_or("a barrier that is not the first one")
        }
        _ => Ok(()),
    }
}

fn mask(kind: Option<&&OperandKind<'_>>, registers: &Registers<'_>) -> Result<(), &'static str> {
    let is_right = match kind {
        Some(OperandKind::Integer(mask)) => *mask as u32 == u32::MAX,
        Some(OperandKind::Name(name)) => registers.known(name) == Known::WithOwnLane,
        _ => false,
    };
    is_right
        .then_some(())
        .ok_or("a mask of lanes that may lack the one that executes it")
}

/// What an instruction makes that forces an operand to be allowed.
pub(super) fn result(
    opcode: &str,
    operands: &[&OperandKind<'_>],
    registers: &Registers<'_>,
) -> Option<Known> {
    use OperandKind::{Integer, Name};
    match (opcode, operands) {
        ("mov.u32", [_, Name("%lanemask_eq")]) => Some(Known::OwnLane),
        ("or.b32", [_, Name(own), Name(_) | Integer(_)])
            if registers.known(own) == Known::OwnLane =>
        {
            Some(Known::WithOwnLane)
        }
        // The lanes that execute it, of which this is one.
        ("activemask.b32", [_]) => Some(Known::WithOwnLane),
        _ => None,
    }
}
