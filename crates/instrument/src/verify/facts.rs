//! What the verifier derives of the program from its analysis, without the
//! pass: where an access may go, and what takes its place.

use analysis::{
    Analysis, Code, Definition, Nameable, Origin, Referent, Root, RootId, SymbolId, SymbolSpace,
    ValueId,
};
use ptx::table::{Access, Extent, Space, Width, classify, extent};
use ptx::{Instruction, Mnemonic, Modifier, OperandKind, Statement};

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
    let bytes = match extent(inst.instruction, access, inst.ignores_source)? {
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
        Referent::Other(_) => return None,
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

/// The instruction that makes a value.
pub(super) fn made_by(analysis: &Analysis<'_, '_>, value: ValueId) -> Option<u32> {
    match analysis.ssa.value(value)?.definition {
        Definition::Instruction { instruction, .. } => Some(instruction),
        _ => None,
    }
}

/// The register that the instruction which makes a value writes it to, as it
/// names it.
pub(super) fn name_of<'a>(analysis: &Analysis<'_, 'a>, value: ValueId) -> Option<&'a str> {
    let Definition::Instruction {
        instruction,
        reference,
        ..
    } = analysis.ssa.value(value)?.definition
    else {
        return None;
    };
    let written = analysis.code.references[reference as usize];
    let inst = &analysis.code.instructions[instruction as usize];
    let element = usize::from(written.element);
    match &inst
        .instruction
        .operands
        .get(usize::from(written.operand))?
        .kind
    {
        OperandKind::Name(name) => Some(name),
        OperandKind::Pair(first, second) => [first, second].get(element).map(|name| **name),
        OperandKind::Vector(list) | OperandKind::List(list) => match list.get(element)?.kind {
            OperandKind::Name(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Local memory that a function's body declares: none, or one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    None,
    /// The variable, and its bytes.
    One(SymbolId, u64),
}

/// `None` if there are several, or it cannot be named at the top of the body.
pub(super) fn frame(code: &Code<'_, '_>, nameable: &Nameable<'_, '_>) -> Option<Frame> {
    let mut frames = code.function.statements().filter_map(|(_, s)| match s {
        Statement::Variable(variable) if variable.space == ptx::VariableSpace::Local => {
            Some(variable.name)
        }
        _ => None,
    });
    let Some(name) = frames.next() else {
        return Some(Frame::None);
    };
    let is_it = |s: &analysis::Symbol<'_>| s.name == name && s.space == SymbolSpace::Local;
    let symbol = SymbolId(code.symbols.iter().position(is_it)? as u32);
    let size = code.symbols[symbol.0 as usize].size?;
    let is_one = frames.next().is_none() && nameable.holds(code, symbol);
    is_one.then_some(Frame::One(symbol, size))
}

/// The frame of an entry that calls functions. Since nothing called the entry,
/// its frame is the only live local memory between its calls. `None` where this
/// is uncertain or does not matter.
pub(super) fn own_frame(code: &Code<'_, '_>, nameable: &Nameable<'_, '_>) -> Option<Frame> {
    let is_in = |mnemonic: Mnemonic| {
        let mut all = code.instructions.iter();
        all.any(|inst| inst.instruction.opcode.mnemonic() == mnemonic)
    };
    let matters = code.function.is_entry && is_in(Mnemonic::Call) && !is_in(Mnemonic::Alloca);
    matters.then(|| frame(code, nameable)).flatten()
}

/// The place whose address a `mapa` takes to another block, and whether it
/// takes it as an address in shared memory, not as a generic one.
pub(super) fn mapped_place(analysis: &Analysis<'_, '_>, value: ValueId) -> Option<(RootId, bool)> {
    let instruction = made_by(analysis, value)?;
    let references = analysis.code.references_of(instruction as usize);
    let own = references.iter().find(|r| r.operand == 1)?;
    let (Referent::Wide(_), Origin::Pointer { root, .. }) =
        (own.referent, analysis.provenance.origin(own.value))
    else {
        return None;
    };
    let inst = &analysis.code.instructions[instruction as usize];
    let is_shared = analysis.place(root)?.space == SymbolSpace::Shared;
    is_shared.then(|| (root, inst.instruction.opcode.has(Modifier::SharedCluster)))
}

/// Whether check code can have the bounds of a root.
pub(super) fn has_bounds(
    analysis: &Analysis<'_, '_>,
    nameable: &Nameable<'_, '_>,
    root: RootId,
) -> bool {
    let can_name = |symbol: SymbolId| nameable.holds(&analysis.code, symbol);
    match analysis.provenance.root(root) {
        Some(Root::KernelParameter { .. } | Root::Lookup { .. }) => true,
        Some(Root::Declared { .. } | Root::Alloca { .. }) => true,
        Some(Root::Variable { symbol }) => can_name(symbol),
        Some(Root::Whole { symbol } | Root::Part { symbol, .. }) => {
            analysis.place(root).is_some() && can_name(symbol)
        }
        // A field of an element of another field: the other one has the lower
        // number.
        Some(Root::Field { parent, .. }) => match analysis.provenance.root(parent) {
            Some(Root::Field { .. }) if parent >= root => false,
            _ => has_bounds(analysis, nameable, parent),
        },
        Some(Root::Mapped { value }) => mapped_place(analysis, value)
            .is_some_and(|(place, _)| has_bounds(analysis, nameable, place)),
        _ => false,
    }
}

/// Whether nothing need be looked up for the bounds of a root, wherever it lies.
pub(super) fn is_of_text(
    analysis: &Analysis<'_, '_>,
    nameable: &Nameable<'_, '_>,
    root: RootId,
) -> bool {
    let is_known = match analysis.provenance.root(root) {
        Some(Root::Variable { .. }) => constant_size(analysis, root).is_some(),
        Some(Root::KernelParameter { .. } | Root::Lookup { .. } | Root::Field { .. }) => false,
        _ => true,
    };
    is_known && has_bounds(analysis, nameable, root)
}

/// The size of a root, if it is fixed in the module's text.
pub(super) fn constant_size(analysis: &Analysis<'_, '_>, root: RootId) -> Option<u64> {
    match analysis.provenance.root(root)? {
        Root::Variable { symbol } => analysis.code.symbols[symbol.0 as usize].size,
        _ => analysis.place(root)?.size,
    }
}

/// How an instruction signals to a barrier that bytes have arrived.
pub(super) struct Completion<'a> {
    /// The operand that is the barrier.
    pub(super) operand: usize,
    /// The barrier: a register or symbol, and bytes from there.
    pub(super) barrier: (&'a str, i64),
    /// The bytes, as an operand.
    pub(super) bytes: String,
}

/// `None` if it signals none, or if the number of bytes is unknown.
pub(super) fn completion<'a>(instruction: &Instruction<'a>) -> Option<Completion<'a>> {
    if !instruction.opcode.has(Modifier::MbarrierCompleteTxBytes) {
        return None;
    }
    // In these instructions, the destination is first and the barrier last.
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
        operand: barrier.operand,
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
    /// The wait is over.
    True,
}

/// Of an instruction's first operand; `None` if it writes no register.
pub(super) fn left_out(instruction: &Instruction<'_>) -> Option<LeftOut> {
    let info = classify(instruction)?;
    if info.roles.first() != Some(&ptx::table::Role::Destination) {
        return None;
    }
    let waits = [Modifier::TestWait, Modifier::TryWait];
    Some(match instruction.opcode.has_any(&waits) {
        true => LeftOut::True,
        false => LeftOut::Zero,
    })
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
