//! What the verifier derives of the program from its analysis, without the
//! pass: where an access may go, and what takes its place.

use analysis::{Analysis, Origin, Referent, Root, SymbolSpace};
use ptx::table::{Access, Extent, Space, Width, classify, extent};
use ptx::{Instruction, OperandKind};

/// Whether a space has addresses of its own, in which nothing is redirected.
pub(super) fn is_window(space: Space) -> bool {
    matches!(
        space,
        Space::Shared | Space::SharedCluster | Space::Local | Space::Const | Space::Param
    )
}

/// Whether an access to a space can reach a symbol.
pub(super) fn reaches(space: Space, symbol: SymbolSpace) -> bool {
    match space {
        Space::Shared | Space::SharedCluster => symbol == SymbolSpace::Shared,
        Space::Local => symbol == SymbolSpace::Local,
        Space::Const => symbol == SymbolSpace::Const,
        Space::Param => matches!(symbol, SymbolSpace::EntryParameter { .. }),
        Space::Global | Space::Generic | Space::Tensor => false,
    }
}

/// Whether the text alone shows that an access is aligned and stays in its
/// variable, or in the object of a frame that its address was derived from; or
/// that it touches no byte.
pub(super) fn is_settled(analysis: &Analysis<'_, '_>, index: usize, access: &Access) -> bool {
    settled(analysis, index, access).unwrap_or(false)
}

fn settled(analysis: &Analysis<'_, '_>, index: usize, access: &Access) -> Option<bool> {
    let code = &analysis.code;
    let inst = &code.instructions[index];
    let OperandKind::Address(address) = &inst.instruction.operands.get(access.operand)?.kind else {
        return None;
    };
    let bytes = match extent(inst.instruction, access, inst.ends_with_predicate)? {
        Extent::Bytes(0) => return Some(true),
        Extent::Bytes(bytes) => i128::from(bytes),
        _ => return None,
    };
    let reference = code.address_of(index, access.operand)?;
    let (symbol, offset, object) = match reference.referent {
        Referent::Symbol(symbol, _) => (symbol, 0, None),
        Referent::Wide(_) => {
            let (symbol, offset) = analysis.constant_address(reference.value)?;
            let object = match analysis.provenance.origin(reference.value) {
                Origin::Pointer { root, .. } => analysis.place(root),
                _ => None,
            };
            (symbol, offset, object)
        }
    };
    let declared = &code.symbols[symbol.0 as usize];
    let (start, size) = match object {
        Some(object) if object.symbol != symbol => return None,
        Some(object) => (i128::from(object.start), object.size?),
        None => (0, declared.size?),
    };
    let at = i128::from(address.offset) + i128::from(offset);
    let alignment = i128::from(access.alignment);
    let has_place = !matches!(
        declared.space,
        SymbolSpace::Argument { .. } | SymbolSpace::CallParameter | SymbolSpace::Other
    );
    Some(
        has_place
            && declared.alignment.is_multiple_of(access.alignment)
            && at % alignment == 0
            && at >= start
            && at + bytes <= start + i128::from(size),
    )
}

/// Whether the bounds of a root may be of any space, and are known when the
/// kernel runs: what a lookup finds, or what the caller of a function passes.
pub(super) fn is_found_on_device(analysis: &Analysis<'_, '_>, root: Option<Root>) -> bool {
    match root {
        Some(Root::Lookup { .. }) => true,
        Some(Root::KernelParameter { .. }) => !analysis.code.function.is_entry,
        _ => false,
    }
}

/// How an instruction tells a barrier that bytes are there.
pub(super) struct Completion<'a> {
    /// The barrier: a register or symbol, and bytes from there.
    pub(super) barrier: (&'a str, i64),
    /// The bytes, as an operand.
    pub(super) bytes: String,
}

/// `None` if it tells none, or the number of bytes is not to be had.
pub(super) fn completion<'a>(instruction: &Instruction<'a>) -> Option<Completion<'a>> {
    if !instruction.opcode.has("mbarrier::complete_tx::bytes") {
        return None;
    }
    // What is written comes first in these instructions, the barrier last.
    let info = classify(instruction)?;
    let (written, barrier) = match &info.accesses[..] {
        [written, .., barrier] => (written, barrier),
        _ => return None,
    };
    let OperandKind::Address(address) = &instruction.operands.get(barrier.operand)?.kind else {
        return None;
    };
    let bytes = match written.width {
        Width::Bytes(bytes) => bytes.to_string(),
        Width::Operand(operand) => match &instruction.operands.get(operand)?.kind {
            OperandKind::Integer(bytes) => bytes.to_string(),
            OperandKind::Name(name) => (*name).to_owned(),
            _ => return None,
        },
        _ => return None,
    };
    Some(Completion {
        barrier: (address.base?, address.offset),
        bytes,
    })
}

/// What the registers hold that an instruction which is left out would have
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// What is read is zero.
    Zero,
    /// Who waits goes on.
    True,
}

/// Of an instruction's first operand; `None` if it writes no register.
pub(super) fn left_out(instruction: &Instruction<'_>) -> Option<LeftOut> {
    let info = classify(instruction)?;
    if info.roles.first() != Some(&ptx::table::Role::Destination) {
        return None;
    }
    let waits = ["test_wait", "try_wait"];
    Some(
        match waits.iter().any(|wait| instruction.opcode.has(wait)) {
            true => LeftOut::True,
            false => LeftOut::Zero,
        },
    )
}

/// Whether an instruction calls the program's `malloc` (`true`) or `free`.
pub(super) fn heap_call(instruction: &Instruction<'_>) -> Option<bool> {
    let (place, name) = instruction.called_function()?;
    let allocates = match name {
        "malloc" => true,
        "free" => false,
        _ => return None,
    };
    let arguments = instruction.operands.get(place + 1)?;
    matches!(&arguments.kind, OperandKind::List(list) if list.len() == 1).then_some(allocates)
}
