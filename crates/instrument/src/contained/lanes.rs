//! Operands of barriers and of exchanges between lanes: what the device has no
//! answer to would end the context.
//!
//! A barrier is one of sixteen, a count of threads is one of whole warps that a
//! block can have, and a mask of lanes holds the lane that executes the
//! instruction (PTX ISA, 9.7.13). Each is such a constant, or the result of the
//! instructions in [`Registers`] that force it to be one.

use super::known::{Known, Registers};
use ptx::{Instruction, Mnemonic, Modifier, OperandKind};

/// Threads of a warp.
const WARP: i64 = 32;
/// Threads that a block can have.
const MOST: i64 = 1024;
/// Barriers of a block.
const BARRIERS: i64 = 16;

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
        Mnemonic::Bar | Mnemonic::Barrier => {
            let is_red = opcode.has(Modifier::Red);
            match (is_red, &kinds[..]) {
                (true, [_, id, _]) | (false, [id]) => barrier(id, registers),
                (true, [_, id, count, _]) | (false, [id, count]) => {
                    barrier(id, registers)?;
                    threads(count, registers)
                }
                _ => Err("a barrier whose operands are not understood"),
            }
        }
        _ => Ok(()),
    }
}

fn barrier(kind: &OperandKind<'_>, registers: &Registers<'_>) -> Result<(), &'static str> {
    let is_right = match kind {
        OperandKind::Integer(id) => (0..BARRIERS).contains(id),
        OperandKind::Name(name) => {
            matches!(registers.known(name), Known::Index(most) if most < BARRIERS as u64)
        }
        _ => false,
    };
    is_right.then_some(()).ok_or("a barrier that may not exist")
}

fn threads(kind: &OperandKind<'_>, registers: &Registers<'_>) -> Result<(), &'static str> {
    let is_right = match kind {
        OperandKind::Integer(count) => (WARP..=MOST).contains(count) && count % WARP == 0,
        OperandKind::Name(name) => registers.known(name) == Known::Warps,
        _ => false,
    };
    is_right
        .then_some(())
        .ok_or("a barrier for a number of threads that may not be one of warps")
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
        ("max.u32", [_, Name(a), Integer(WARP)])
            if matches!(registers.known(a), Known::Multiple(32)) =>
        {
            Some(Known::SomeWarps)
        }
        ("min.u32", [_, Name(a), Integer(MOST)]) if registers.known(a) == Known::SomeWarps => {
            Some(Known::Warps)
        }
        _ => None,
    }
}
