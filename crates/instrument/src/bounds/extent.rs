//! Which bytes an access covers, what alignment it needs, and whether that
//! can be known before the program runs.

use analysis::{Analysis, Definition, Origin, Referent, Role, SymbolId, SymbolSpace, ValueId};
use ptx::OperandKind;
use ptx::table::{Access, Width};

/// Bytes that a check covers, from the lowest offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Known.
    Bytes(u64),
    /// Known, but none where this predicate operand holds.
    BytesUnless(u64, usize),
    /// In this operand of the instruction, a 32-bit register.
    Operand(usize),
    /// `step` times the 32-bit register that is this operand, plus `last`.
    Steps {
        /// Bytes that one unit of the operand adds.
        step: u64,
        /// Bytes of the last row.
        last: u64,
        /// The operand: a distance between rows.
        operand: usize,
    },
}

impl Extent {
    /// Whether the number of bytes is in the text.
    pub(super) fn is_constant(self) -> bool {
        matches!(self, Extent::Bytes(_) | Extent::BytesUnless(..))
    }
}

/// Bytes that an access covers; `None` if only a descriptor knows.
pub(super) fn width_of(inst: &analysis::Inst<'_, '_>, access: &Access) -> Option<Extent> {
    let operands = &inst.instruction.operands;
    let integer = |operand: usize| match operands.get(operand)?.kind {
        OperandKind::Integer(value) => u64::try_from(value).ok(),
        _ => None,
    };
    let is_name = |operand: usize| {
        matches!(
            operands.get(operand).map(|o| &o.kind),
            Some(OperandKind::Name(_))
        )
    };
    let count = |operand: usize| match integer(operand) {
        Some(bytes) => Some(Extent::Bytes(bytes)),
        None => is_name(operand).then_some(Extent::Operand(operand)),
    };
    match access.width {
        Width::Bytes(bytes) => Some(Extent::Bytes(u64::from(bytes))),
        Width::Operand(operand) => count(operand),
        Width::CopySource { size, source } => {
            if inst.ends_with_predicate && source + 1 == operands.len() {
                return is_name(source).then_some(Extent::BytesUnless(integer(size)?, source));
            }
            match count(source)? {
                Extent::Bytes(bytes) => Some(Extent::Bytes(bytes.min(integer(size)?))),
                register => Some(register),
            }
        }
        Width::Matrix {
            rows,
            row_bits,
            element_bits,
            stride,
        } => {
            let last = u64::from(row_bits).div_ceil(8);
            let gaps = u64::from(rows).saturating_sub(1);
            let Some(operand) = stride else {
                return Some(Extent::Bytes(gaps.checked_mul(last)?.checked_add(last)?));
            };
            let bits = gaps * u64::from(element_bits);
            if bits % 8 != 0 {
                return None;
            }
            match integer(operand) {
                Some(stride) => Some(Extent::Bytes(
                    stride.checked_mul(bits / 8)?.checked_add(last)?,
                )),
                None => is_name(operand).then_some(Extent::Steps {
                    step: bits / 8,
                    last,
                    operand,
                }),
            }
        }
        Width::Descriptor => None,
    }
}

/// The bytes of a load that the program uses: `_` elements of a vector are
/// not read (PTX ISA, `ld`), and bytes outside `.pragma "used_bytes_mask"` are
/// read only because the compiler widened the load.
pub(crate) fn used_bytes(inst: &analysis::Inst<'_, '_>, bytes: u64, source: &str) -> (u64, u64) {
    let instruction = inst.instruction;
    let (mut from, mut to) = (0, bytes);
    if !matches!(instruction.opcode.base(), "ld" | "ldu") {
        return (from, to);
    }
    if let Some(OperandKind::Vector(elements)) = instruction.operands.first().map(|o| &o.kind)
        && let Some(each) = instruction
            .opcode
            .types()
            .last()
            .map(|ty| u64::from(ty.bytes()))
    {
        let used = |o: &ptx::Operand<'_>| o.kind != OperandKind::Sink;
        if let (Some(first), Some(last)) = (
            elements.iter().position(used),
            elements.iter().rposition(used),
        ) {
            (from, to) = (first as u64 * each, bytes.min((last as u64 + 1) * each));
        }
    }
    if inst.attached_from < instruction.span.start {
        let attached = &source[inst.attached_from as usize..instruction.span.start as usize];
        if let Some((_, mask)) = attached.split_once("used_bytes_mask") {
            let mask = mask.trim_start().trim_start_matches("0x");
            let end = mask
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(mask.len());
            if let Ok(mask @ 1..) = u64::from_str_radix(&mask[..end], 16) {
                from = from.max(u64::from(mask.trailing_zeros()));
                to = to.min(64 - u64::from(mask.leading_zeros()));
            }
        }
    }
    if from < to { (from, to) } else { (0, bytes) }
}

/// The alignment of the sink that an access is sent to: no less than what
/// [`Access::alignment`] asks for.
pub(super) fn sink_alignment(access: &Access) -> u64 {
    match access.width {
        Width::Bytes(bytes) if !access.asynchronous => u64::from(bytes).next_power_of_two().min(32),
        _ => 32,
    }
}

/// Instructions whose generic addresses may only lie in shared memory (PTX
/// ISA: the behaviour is undefined elsewhere). Real code hands some of them
/// plain 32-bit shared addresses (Triton, `tcgen05.commit`).
pub(crate) fn only_shared(opcode: &ptx::Opcode<'_>) -> bool {
    match opcode.base() {
        "mbarrier" | "tcgen05" | "clusterlaunchcontrol" | "ldmatrix" | "stmatrix" => true,
        "cp" => opcode.has("mbarrier"),
        "st" => opcode.has("async") || opcode.has("bulk"),
        "red" => opcode.has("async"),
        _ => false,
    }
}

/// Whether an access has a constant, aligned address within a declared
/// variable, or touches no byte at all.
pub(crate) fn is_static(analysis: &Analysis<'_, '_>, index: usize, access: &Access) -> bool {
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
        Some((Referent::Wide(_), value)) => constant_address(analysis, value),
        None => None,
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
    // A pointer to an object of a frame is held to that object.
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

/// The variable and the offset that a value is the address of, where every
/// step from one to the other is a constant.
pub(super) fn constant_address(
    analysis: &Analysis<'_, '_>,
    mut value: ValueId,
) -> Option<(SymbolId, i64)> {
    let mut offset = 0i64;
    for _ in 0..16 {
        let Definition::Instruction {
            instruction,
            old: None,
            ..
        } = analysis.ssa.value(value)?.definition
        else {
            return None;
        };
        let references = analysis.code.references_of(instruction as usize);
        let instruction = analysis.code.instructions[instruction as usize].instruction;
        let source = references
            .iter()
            .find(|r| r.operand == 1 && r.role == Role::Read)?;
        match (
            instruction.opcode.base(),
            instruction.operands.get(2).map(|o| &o.kind),
        ) {
            ("mov" | "cvta", None) => {}
            ("add", Some(OperandKind::Integer(constant))) => {
                offset = offset.checked_add(*constant)?
            }
            _ => return None,
        }
        match source.referent {
            Referent::Symbol(symbol, constant) => {
                return Some((symbol, offset.checked_add(constant)?));
            }
            Referent::Wide(_) => value = source.value,
        }
    }
    None
}
