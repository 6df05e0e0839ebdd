//! Rows of matrices in memory.
//!
//! The alignment of an access is that of its first row. Row `n` begins `n` times
//! the distance between rows further on, which is a multiple of the alignment if
//! the distance is: then each row is as aligned as the first. A distance that is
//! not in the text is refused, because the bytes of the access are not known.

use ptx::table::{Access, Width};
use ptx::{Instruction, OperandKind};

/// Whether all rows of an access are aligned if the first one is.
pub(super) fn are_aligned(instruction: &Instruction<'_>, access: &Access) -> bool {
    match access.width {
        Width::Matrix {
            element_bits,
            stride: Some(operand),
            ..
        } => {
            let Some(OperandKind::Integer(elements)) = instruction
                .operands
                .get(operand)
                .map(|operand| &operand.kind)
            else {
                return false;
            };
            let bits = u64::try_from(*elements)
                .ok()
                .and_then(|elements| elements.checked_mul(u64::from(element_bits)));
            bits.is_some_and(|bits| bits.is_multiple_of(8 * u64::from(access.alignment)))
        }
        // Rows without a gap: they have the bytes of the rows between them.
        Width::Matrix { row_bits, .. } => {
            u64::from(row_bits).is_multiple_of(8 * u64::from(access.alignment))
        }
        _ => true,
    }
}
