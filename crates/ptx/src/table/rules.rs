//! Applies the rows of the table to an instruction.

use super::rows::{AccessRow, Mnemonic, Row, SpaceRule, Which, WidthRule};
use super::{Access, Convergence, Info, Predication, Role, Space, Width, alignment};
use crate::{Instruction, Modifier, Opcode, OperandKind};

/// The table's row for `instruction`; `None` for opcodes it lacks, and for
/// accesses that cannot be determined: a missing type, size or bracketed
/// operand (ptxas also takes `ld.global.b32 %r1, array[1];`).
pub fn classify(instruction: &Instruction<'_>) -> Option<Info> {
    let opcode = &instruction.opcode;
    let row = find(opcode)?;
    let mut accesses = Vec::with_capacity(row.accesses.len());
    for access in row.accesses {
        match locate(access.operand, instruction) {
            Some(operand) => accesses.push(resolve(access, operand, instruction)?),
            None if access.is_optional => {}
            None => return None,
        }
    }
    let convergence = match row.convergence {
        Convergence::None if opcode.has(Modifier::Aligned) => Convergence::Warp,
        other => other,
    };
    Some(Info {
        roles: roles(row, instruction),
        accesses,
        convergence,
        is_control: row.is_control,
        predication: match row.predication {
            // All destination blocks of a copy wait for it.
            Predication::Whole if opcode.has(Modifier::MulticastCluster) => Predication::Never,
            other => other,
        },
        is_shared_only: row.is_shared_only,
    })
}

/// Whether the table has a row for the opcode.
pub fn knows(opcode: &Opcode<'_>) -> bool {
    find(opcode).is_some()
}

/// State spaces among the modifiers, in the order written: `.shared::cta` is
/// [`Space::Shared`], `.param::entry` is [`Space::Param`].
fn spaces(opcode: &Opcode<'_>) -> impl Iterator<Item = Space> {
    opcode.modifiers().iter().filter_map(|modifier| {
        // `.const[2]` cannot be an opcode token; banks were removed in PTX 2.2.
        Some(match modifier {
            Modifier::Global => Space::Global,
            Modifier::Shared | Modifier::SharedCta => Space::Shared,
            Modifier::SharedCluster => Space::SharedCluster,
            Modifier::Local => Space::Local,
            Modifier::Const => Space::Const,
            Modifier::Param | Modifier::ParamEntry | Modifier::ParamFunc => Space::Param,
            _ => return None,
        })
    })
}

/// The first state space among the modifiers, or generic.
pub fn space_of(opcode: &Opcode<'_>) -> Space {
    spaces(opcode).next().unwrap_or(Space::Generic)
}

/// `.v2`, `.v4`, `.v8`; 1 without.
pub fn vector_length(opcode: &Opcode<'_>) -> u32 {
    opcode
        .modifiers()
        .iter()
        .find_map(|modifier| match modifier {
            Modifier::V2 => Some(2),
            Modifier::V4 => Some(4),
            Modifier::V8 => Some(8),
            _ => None,
        })
        .unwrap_or(1)
}

pub(super) fn find(opcode: &Opcode<'_>) -> Option<&'static Row> {
    let mut rows = opcode.mnemonic().rows().iter();
    rows.find(|row| row.with.iter().all(|modifier| opcode.has(*modifier)))
}

fn locate(which: Which, instruction: &Instruction<'_>) -> Option<usize> {
    match which {
        Which::Bracket(nth) => instruction
            .operands
            .iter()
            .enumerate()
            .filter(|(_, operand)| matches!(operand.kind, OperandKind::Address(_)))
            .map(|(index, _)| index)
            .nth(nth),
        Which::Descriptor(index) => {
            let operand = instruction.operands.get(index)?;
            matches!(operand.kind, OperandKind::Name(_)).then_some(index)
        }
    }
}

fn resolve(row: &AccessRow, operand: usize, instruction: &Instruction<'_>) -> Option<Access> {
    let opcode = &instruction.opcode;
    let space = match row.space {
        SpaceRule::Nth(nth) => spaces(opcode).nth(nth).unwrap_or(Space::Generic),
        SpaceRule::Is(space) => space,
    };
    let mut lanes = 32;
    let width = match row.width {
        WidthRule::Typed => Width::Bytes(typed_width(instruction)?),
        WidthRule::Bytes(bytes) => Width::Bytes(bytes),
        WidthRule::Operand(index) => Width::Operand(present(instruction, index)?),
        WidthRule::CopySource => {
            let size = present(instruction, 2)?;
            // With a cache policy it is the last operand.
            let count = instruction.operands.len() - usize::from(opcode.has(Modifier::L2CacheHint));
            if count > 3 {
                Width::CopySource { size, source: 3 }
            } else {
                Width::Operand(size)
            }
        }
        WidthRule::Fragment => fragment(instruction, operand)?,
        WidthRule::MatrixRow => {
            lanes = matrix_rows(opcode)?;
            Width::Bytes(16)
        }
        WidthRule::Descriptor => Width::Descriptor,
    };
    Some(Access {
        operand,
        space,
        effect: row.effect,
        width,
        alignment: alignment::of(row.alignment, width, space, instruction),
        asynchronous: row.asynchronous,
        lanes,
    })
}

fn present(instruction: &Instruction<'_>, index: usize) -> Option<usize> {
    (index < instruction.operands.len()).then_some(index)
}

/// Bytes from the type and the vector length. Elements of a loaded vector
/// that go to the sink `_` are not read (PTX ISA, `ld`): those at the end do
/// not count.
fn typed_width(instruction: &Instruction<'_>) -> Option<u32> {
    let element = instruction.opcode.types().last()?.bytes();
    let mut count = vector_length(&instruction.opcode);
    if instruction.opcode.mnemonic() == Mnemonic::Ld
        && let Some(OperandKind::Vector(elements)) =
            instruction.operands.first().map(|operand| &operand.kind)
        && elements.len() == count as usize
    {
        let sinks = elements
            .iter()
            .rev()
            .take_while(|e| e.kind == OperandKind::Sink)
            .count() as u32;
        count = (count - sinks).max(1);
    }
    (element > 0).then_some(element * count)
}

/// Lanes whose addresses `ldmatrix` and `stmatrix` use: one a row in memory.
fn matrix_rows(opcode: &Opcode<'_>) -> Option<u32> {
    let mut matrices = None;
    let mut rows = 8;
    for &modifier in opcode.modifiers() {
        match modifier {
            Modifier::X1 => matrices = Some(1),
            Modifier::X2 => matrices = Some(2),
            Modifier::X4 => matrices = Some(4),
            // 16 rows of 16 bytes; all other shapes have 8 of them. (`m16n8`
            // is stored transposed, 8 rows of 16 elements of a byte.)
            Modifier::M16n16 => rows = 16,
            _ => {}
        }
    }
    Some((matrices? * rows).min(32))
}

/// Extent of a `wmma` fragment (PTX ISA, "Matrix Fragments for WMMA").
fn fragment(instruction: &Instruction<'_>, address: usize) -> Option<Width> {
    let opcode = &instruction.opcode;
    let (mut which, mut shape, mut is_row, mut element_bits) = (None, None, None, None);
    for &modifier in opcode.modifiers() {
        match modifier {
            Modifier::A | Modifier::B | Modifier::C | Modifier::D => which = Some(modifier),
            Modifier::Row => is_row = Some(true),
            Modifier::Col => is_row = Some(false),
            Modifier::S4 | Modifier::U4 => element_bits = Some(4),
            Modifier::B1 => element_bits = Some(1),
            _ => {
                if let Some(named) = modifier.shape() {
                    shape = Some(named);
                } else if let Some(ty) = modifier.ty() {
                    // `.tf32` is 4 bytes in memory, as its type says.
                    element_bits = Some(ty.bytes() * 8);
                }
            }
        }
    }
    let (m, n, k) = shape?;
    let (rows, columns) = match which? {
        Modifier::A => (m, k),
        Modifier::B => (k, n),
        _ => (m, n),
    };
    let (rows, length) = if is_row? {
        (rows, columns)
    } else {
        (columns, rows)
    };
    let element_bits = element_bits?;
    // Loads: address, stride. Stores: address, registers, stride.
    let stride = address + if opcode.has(Modifier::Store) { 2 } else { 1 };
    let stride = present(instruction, stride);
    Some(Width::Matrix {
        rows,
        row_bits: length * element_bits,
        element_bits,
        stride,
    })
}

fn roles(row: &Row, instruction: &Instruction<'_>) -> Vec<Role> {
    if instruction.opcode.mnemonic() == Mnemonic::Call {
        return call_roles(instruction);
    }
    let letters = row.roles.as_bytes();
    let role = |index: usize, kind: &OperandKind<'_>| match letters.get(index) {
        Some(b'd') => Role::Destination,
        Some(b'b') => Role::Both,
        Some(b't') => Role::Target,
        Some(_) => Role::Source,
        None if matches!(kind, OperandKind::Address(_)) => Role::Address,
        None => Role::Source,
    };
    let mut roles = Vec::with_capacity(instruction.operands.len());
    for (index, operand) in instruction.operands.iter().enumerate() {
        roles.push(role(index, &operand.kind));
    }
    roles
}

/// `call (returns), callee, (arguments), prototype`: the callee is the first
/// operand that is no list; a list before it is written, one after it read.
fn call_roles(instruction: &Instruction<'_>) -> Vec<Role> {
    let mut seen_callee = false;
    instruction
        .operands
        .iter()
        .map(|operand| match operand.kind {
            OperandKind::List(_) if !seen_callee => Role::Destination,
            OperandKind::List(_) => Role::Source,
            _ => {
                seen_callee = true;
                Role::Target
            }
        })
        .collect()
}
