//! Finds the pointers that a proof depends on only by their offset in their
//! buffer. Where a program allocates its buffers anew for each launch, the
//! addresses differ, but the answer for an earlier launch still applies.

use super::program::{Bounds, Node, NodeId, Program};
use super::recurrence::Recurrence;
use serde::{Deserialize, Serialize};

/// A pointer parameter. Accesses of the kernel are checked against the buffer
/// that it points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundedPointer {
    /// Bytes from the start of the parameter block.
    pub offset: u32,
    /// Index of the input that holds the pointer, if the answer does not
    /// change when pointer and buffer move together by a multiple of
    /// [`BoundedPointer::STEP`], within addresses below 2^63.
    pub relative: Option<usize>,
}

impl BoundedPointer {
    /// A power of two, not below the strictest alignment of an access.
    pub const STEP: u64 = 4096;
}

/// The pointers of a program, each once.
pub(super) fn pointers(program: &Program) -> Vec<BoundedPointer> {
    let mut offsets: Vec<u32> = program
        .checks
        .iter()
        .filter_map(|check| match check.bounds {
            Bounds::Parameter(offset) => Some(offset),
            _ => None,
        })
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    let relative = |offset: u32| {
        let is_pointer = |input: &super::Input| input.offset == offset && input.bytes == 8;
        let input = program.inputs.iter().position(is_pointer)?;
        is_relative(program, input, offset).then_some(input)
    };
    offsets
        .into_iter()
        .map(|offset| BoundedPointer {
            offset,
            relative: relative(offset),
        })
        .collect()
}

/// Whether the pointer is used only in 64-bit sums, once in each, and these
/// sums are only used as addresses of accesses to its own buffer.
fn is_relative(program: &Program, input: usize, offset: u32) -> bool {
    let overlaps = |other: &super::Input| {
        other.offset < offset + 8 && offset < other.offset + u32::from(other.bytes)
    };
    // (No other input may read some of the pointer's bytes.)
    if program
        .inputs
        .iter()
        .filter(|other| overlaps(other))
        .count()
        != 1
    {
        return false;
    }
    // The pointer, and the sums that contain it.
    let mut addresses = vec![false; program.nodes.len()];
    for (id, node) in program.nodes.iter().enumerate() {
        addresses[id] = match *node {
            Node::Parameter(read, width) if read as usize == input => {
                if width != 64 {
                    return false;
                }
                true
            }
            Node::Sum {
                first, end, width, ..
            } => {
                let terms = &program.terms[first as usize..end as usize];
                let mut with = terms.iter().filter(|(term, _)| addresses[*term as usize]);
                match (with.next(), with.next()) {
                    (None, _) => false,
                    (Some((_, 1)), None) if width == 64 => true,
                    _ => return false,
                }
            }
            other => {
                let mut uses = false;
                other.with_operands(|operand: NodeId| {
                    uses |= addresses[operand as usize];
                    operand
                });
                if uses {
                    return false;
                }
                false
            }
        };
    }
    let carries = |recurrence: &Recurrence| {
        let mut operands = recurrence.operands();
        operands.any(|id| addresses[id as usize])
    };
    if program.recurrences.iter().any(carries) {
        return false;
    }
    program.checks.iter().all(|check| {
        let is_address = addresses[check.address as usize];
        !addresses[check.reached as usize]
            && is_address == (check.bounds == Bounds::Parameter(offset))
    })
}
