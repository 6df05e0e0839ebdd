//! Rows of matrices in memory.
//!
//! The alignment of an access is that of its first row. Row `n` begins `n` times
//! the distance between rows further on, which is a multiple of the alignment if
//! the distance is: then each row is as aligned as the first. A distance that is
//! not in the text is in a register, which must be known to be bounded: then the bytes
//! of the access are, too.

use super::known::{Known, Registers, Rows};
use ptx::table::{Access, Extent, Width};
use ptx::{Instruction, OperandKind};

/// The rows of an access whose distance a register holds, and their bytes at most.
pub(super) fn of(
    instruction: &Instruction<'_>,
    access: &Access,
    registers: &Registers<'_>,
) -> Option<(Rows, u64)> {
    let Extent::Steps {
        step,
        shift: 0,
        last,
        operand,
    } = ptx::table::extent(instruction, access, false)?
    else {
        return None;
    };
    let OperandKind::Name(register) = instruction.operands.get(operand)?.kind else {
        return None;
    };
    let Known::Index { most, .. } = registers.known(register) else {
        return None;
    };
    let distance = registers.number(register)?;
    let bytes = most.checked_mul(step)?.checked_add(last)?;
    let rows = Rows {
        distance,
        step,
        last,
    };
    Some((rows, bytes))
}

/// Whether all rows of an access are aligned if the first one is.
pub(super) fn are_aligned(
    instruction: &Instruction<'_>,
    access: &Access,
    registers: &Registers<'_>,
) -> bool {
    match access.width {
        Width::Matrix {
            element_bits,
            stride: Some(operand),
            ..
        } => {
            let operand = instruction.operands.get(operand);
            let distance = match operand.map(|operand| &operand.kind) {
                Some(OperandKind::Integer(elements)) => u64::try_from(*elements).ok(),
                Some(OperandKind::Name(register)) => match registers.known(register) {
                    Known::Index { multiple, .. } => Some(multiple.into()),
                    _ => None,
                },
                _ => None,
            };
            let bits = distance.and_then(|elements| elements.checked_mul(element_bits.into()));
            bits.is_some_and(|bits| bits.is_multiple_of(8 * u64::from(access.alignment)))
        }
        // Rows without a gap: they have the bytes of the rows between them.
        Width::Matrix { row_bits, .. } => {
            u64::from(row_bits).is_multiple_of(8 * u64::from(access.alignment))
        }
        _ => true,
    }
}
