//! Which bytes an access covers, which alignment it needs, and whether both are
//! known before the program runs.

use analysis::{Analysis, Inst, Origin, Referent, SymbolSpace};
use ptx::OperandKind;
use ptx::table::{Access, Extent, Width, extent};

/// Bytes that an access covers; `None` if only a descriptor has the number.
pub(super) fn width_of(inst: &Inst<'_, '_>, access: &Access) -> Option<Extent> {
    extent(inst.instruction, access, inst.ignores_source)
}

/// The alignment of the sink for an access: at least [`Access::alignment`].
pub(super) fn sink_alignment(access: &Access) -> u64 {
    match access.width {
        Width::Bytes(bytes) if !access.asynchronous => u64::from(bytes).next_power_of_two().min(32),
        _ => 32,
    }
}

/// Whether an access has a constant, aligned address within a declared
/// variable, or touches no byte at all.
pub(super) fn is_static(analysis: &Analysis<'_, '_>, index: usize, access: &Access) -> bool {
    let code = &analysis.code;
    let instruction = code.instructions[index].instruction;
    let Some(OperandKind::Address(address)) =
        instruction.operands.get(access.operand).map(|o| &o.kind)
    else {
        return false;
    };
    if width_of(&code.instructions[index], access) == Some(Extent::Bytes(0)) {
        return true;
    }
    let reference = code.address_of(index, access.operand);
    let place = match reference.map(|reference| (reference.referent, reference.value)) {
        Some((Referent::Symbol(symbol, _), _)) => Some((symbol, 0)),
        Some((Referent::Wide(_), value)) => analysis.constant_address(value),
        Some((Referent::Other(_), _)) | None => None,
    };
    let Some((symbol, offset)) = place else {
        return false;
    };
    let declared = &code.symbols[symbol.0 as usize];
    let alignment = access.alignment;
    let from_symbol = address.offset.wrapping_add(offset) as u64;
    if !declared.alignment.is_multiple_of(alignment)
        || !from_symbol.is_multiple_of(alignment.into())
    {
        return false;
    }
    // A pointer to an object of a frame is checked against that object.
    let place = match reference.map(|reference| (reference.referent, reference.value)) {
        Some((Referent::Wide(_), value)) => match analysis.provenance.origin(value) {
            Origin::Pointer { root, .. } => analysis.place(root),
            _ => None,
        },
        _ => None,
    };
    let (first, size) = match place {
        Some(place) if place.symbol == symbol => (place.start, place.size),
        Some(_) => return false,
        None => (0, declared.size),
    };
    let start = address
        .offset
        .checked_add(offset)
        .and_then(|start| start.checked_sub(i64::from(first)))
        .and_then(|start| u64::try_from(start).ok());
    let Some(Extent::Bytes(bytes)) = width_of(&code.instructions[index], access) else {
        return false;
    };
    match (declared.space, size, start) {
        (SymbolSpace::Argument { .. } | SymbolSpace::CallParameter | SymbolSpace::Other, ..) => {
            false
        }
        (_, Some(size), Some(start)) => start.checked_add(bytes).is_some_and(|end| end <= size),
        _ => false,
    }
}
