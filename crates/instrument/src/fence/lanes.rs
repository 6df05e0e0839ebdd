//! Instructions in which threads meet: barriers, and exchanges between the lanes
//! of a warp.
//!
//! They access nothing, but what they are given in registers may be what the
//! device has no answer to, and ends the context: a barrier that does not exist, a
//! count of threads that is no number of warps, a mask of lanes without the lane
//! that executes the instruction. (PTX ISA, 9.7.13: barriers are 0 to 15, counts
//! are multiples of the warp's size, and "the behavior is undefined if the
//! executing thread is not in the membermask".) Each is forced into what is
//! allowed, which changes nothing of what is.

use super::text;
use crate::patch::{Patch, put};
use model::layout::fence::{BARRIERS, BLOCK_THREADS, WARP};
use ptx::table::{Convergence, Info};
use ptx::{Instruction, Mnemonic, Modifier, Operand, OperandKind};

/// How an operand is forced into what is allowed.
#[derive(Clone, Copy)]
enum Kind {
    Barrier,
    Threads,
    Mask,
}

/// Forces the operands of an instruction; false if it has none that must be.
///
/// # Errors
///
/// A constant is not allowed, or an operand is not understood.
pub(super) fn bound(
    instruction: &Instruction<'_>,
    info: &Info,
    patch: &mut Patch,
) -> Result<bool, String> {
    let operands = operands(instruction, info)?;
    let mut before = String::new();
    let mut changed = Vec::new();
    for (operand, kind) in operands {
        let own = match (kind, &operand.kind) {
            (Kind::Barrier, OperandKind::Integer(id)) if (0..BARRIERS).contains(id) => continue,
            (Kind::Threads, OperandKind::Integer(count))
                if (WARP..=BLOCK_THREADS).contains(count) && count % WARP == 0 =>
            {
                continue;
            }
            (Kind::Mask, OperandKind::Integer(mask)) if *mask as u32 == u32::MAX => continue,
            (Kind::Barrier, OperandKind::Name(from)) => text::barrier(from, &mut before),
            (Kind::Threads, OperandKind::Name(from)) => text::threads(from, &mut before),
            (Kind::Mask, OperandKind::Name(from)) => text::lanes(from, &mut before),
            (Kind::Mask, OperandKind::Integer(mask)) => {
                text::lanes(&format!("{}", *mask as u32), &mut before)
            }
            (Kind::Barrier, _) => return Err("there is no such barrier".to_owned()),
            (Kind::Threads, _) => return Err("no number of threads in warps".to_owned()),
            (Kind::Mask, _) => return Err("its mask of lanes is not understood".to_owned()),
        };
        changed.push((operand.span, own));
    }
    if changed.is_empty() {
        return Ok(false);
    }
    patch.insert(instruction.span.start, |out| {
        put(out, format_args!("{before}"))
    });
    for (span, own) in changed {
        patch.edit(span.start, span.end, |out| out.push_str(own));
    }
    Ok(true)
}

/// The operands that must be bounded, in the order of the text.
fn operands<'i, 'a>(
    instruction: &'i Instruction<'a>,
    info: &Info,
) -> Result<Vec<(&'i Operand<'a>, Kind)>, String> {
    let all = &instruction.operands;
    let opcode = &instruction.opcode;
    let is_barrier = matches!(opcode.mnemonic(), Mnemonic::Bar | Mnemonic::Barrier);
    if info.convergence == Convergence::Mask {
        let mask = all.last().ok_or("it has no mask of lanes")?;
        return Ok(vec![(mask, Kind::Mask)]);
    }
    if !is_barrier || opcode.has(Modifier::Cluster) {
        return Ok(Vec::new());
    }
    // The result before, and the predicate behind.
    let rest = match opcode.has(Modifier::Red) {
        true => all.get(1..all.len().saturating_sub(1)),
        false => all.get(..),
    };
    match rest {
        Some([barrier]) => Ok(vec![(barrier, Kind::Barrier)]),
        Some([barrier, threads]) => Ok(vec![(barrier, Kind::Barrier), (threads, Kind::Threads)]),
        _ => Err("its operands are not understood".to_owned()),
    }
}
