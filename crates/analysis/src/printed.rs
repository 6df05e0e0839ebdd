//! The strings that a call of device-side `printf` reads, as far as the text of
//! the module determines them. `vprintf(format, arguments)` has the address of
//! a format, which must be a constant of the module, and the address of the
//! arguments, which compilers keep in the frame.

use crate::calls::{Stored, stores};
use crate::code::{Referent, ValueId};
use crate::function::Analysis;
use crate::names::{ModuleSymbols, Register, SymbolId, SymbolSpace};
use crate::roles::Role;
use crate::ssa::Definition;
use model::printf::{Most, printed};
use ptx::{Item, Linkage, Mnemonic, Modifier, Module, OperandKind, Value, VariableSpace};
use rustc_hash::{FxHashMap, FxHashSet};

/// The function that prints.
pub const PRINTF: &str = "vprintf";

/// The constant strings of a module that prints; none of others.
#[derive(Debug, Default)]
pub struct Texts<'a> {
    /// The module has a function of its own of that name.
    is_own: bool,
    /// The bytes that variables begin with; they are zero up to their size.
    known: FxHashMap<&'a str, (Vec<u8>, u64)>,
}

/// Longest variable that counts as a string.
const LONGEST: u64 = 1 << 16;

/// Whether a module declares the driver's `vprintf`.
pub fn prints(module: &Module<'_>) -> bool {
    module
        .items
        .iter()
        .any(|item| matches!(item, Item::Function(f) if f.body.is_none() && f.name == PRINTF))
}

impl<'a> Texts<'a> {
    /// Of a module.
    pub fn of(module: &Module<'a>) -> Self {
        let mut known = FxHashMap::default();
        let is_own = module
            .functions()
            .any(|f| f.body.is_some() && f.name == PRINTF);
        if !prints(module) {
            return Texts { is_own, known };
        }
        for item in &module.items {
            // Other files may change variables that they can name. (The host
            // may change any variable: for a format, the module's text is
            // used.)
            if let Item::Variable(variable) = item
                && variable.linkage == Linkage::Local
                && matches!(variable.space, VariableSpace::Global | VariableSpace::Const)
                && variable.ty.bytes() == 1
                && let Some(size) = variable.size().filter(|&size| size <= LONGEST)
                && let Ok(Some(Value::List(values))) = variable.initial_value(module.source)
            {
                let bytes: Option<Vec<u8>> = values
                    .iter()
                    .map(|value| match value {
                        Value::Integer(byte) => Some(*byte as u8),
                        _ => None,
                    })
                    .collect();
                known.extend(bytes.map(|bytes| (variable.name, (bytes, size))));
            }
        }
        Texts { is_own, known }
    }

    /// The string at a place of a variable, without its terminator; `None` if
    /// it is no constant, or has none.
    fn at(
        &self,
        analysis: &Analysis<'_, 'a>,
        symbols: &ModuleSymbols<'a>,
        (symbol, offset): (SymbolId, i64),
    ) -> Option<&[u8]> {
        let symbol = analysis.code.symbols.get(symbol.0 as usize)?;
        // A function's own variable of that name is another one.
        if symbols.get(symbol.name) != Some(symbol) {
            return None;
        }
        let (bytes, size) = self.known.get(symbol.name)?;
        let offset = u64::try_from(offset).ok().filter(|offset| offset < size)?;
        let bytes = bytes.get(offset as usize..).unwrap_or(&[]);
        match bytes.iter().position(|&byte| byte == 0) {
            Some(end) => Some(&bytes[..end]),
            None => (offset + (bytes.len() as u64) < *size).then_some(bytes),
        }
    }
}

/// Whether a variable is a literal, which nothing may change, by the name that
/// compilers generate for it: nvcc `$str$1` and `__unnamed_1`, LLVM
/// `_$_str_$_1`, Triton `printfFormat_1`. Other names are the program's.
fn is_literal(name: &str) -> bool {
    let prefixes = ["__unnamed_", "printfFormat_"];
    name.contains('$') || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// A call that prints strings which have to be checked.
#[derive(Debug)]
pub struct Print {
    /// The store of the address of the arguments: the first operand behind its
    /// place is a register.
    pub buffer: u32,
    /// The first of the stores for the call, where checks are inserted.
    pub first: u32,
    /// The call, or the last of the loads of its result.
    pub last: u32,
    /// The strings.
    pub strings: Vec<Argument>,
}

/// One string.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Bytes from the address of the arguments to the pointer.
    pub at: u32,
    /// How much of it is read.
    pub most: Most,
    /// What was stored there, in a register that still holds it.
    pub pointer: Option<(Register, ValueId)>,
}

/// What is known of a call.
#[derive(Debug)]
pub struct Printing {
    /// What is to be checked.
    pub print: Option<Print>,
    /// There may be more strings: the format, the place of the arguments or a
    /// conversion is not known.
    pub is_cut_off: bool,
}

/// What the instruction at `index` prints; `None` if it calls something else.
pub fn printing<'a>(
    analysis: &Analysis<'_, 'a>,
    symbols: &ModuleSymbols<'a>,
    texts: &Texts<'a>,
    index: usize,
) -> Option<Printing> {
    let code = &analysis.code;
    let instruction = code.instructions[index].instruction;
    let (place, _) = instruction
        .called_function()
        .filter(|(_, name)| *name == PRINTF && !texts.is_own)?;
    let unknown = Some(Printing {
        print: None,
        is_cut_off: true,
    });
    let Some([format, arguments]) = passed(analysis, index, place + 1) else {
        return unknown;
    };
    let (buffer, arguments) = (arguments.instruction, arguments.value);
    // Compilers pass null where there are no arguments.
    let arguments = arguments?;
    // Strings by which a format prints, if every format that may be meant does.
    let Some(formats) = format.value.and_then(|format| constants(analysis, format)) else {
        return unknown;
    };
    let mut all = formats
        .into_iter()
        .map(|format| texts.at(analysis, symbols, format).map(printed));
    let Some(Some(printed)) = all.next() else {
        return unknown;
    };
    for other in all {
        match other {
            Some(other) if other.strings == printed.strings => {}
            _ => return unknown,
        }
    }
    let mut printing = Printing {
        print: None,
        is_cut_off: printed.is_cut_off,
    };
    if printed.strings.is_empty() {
        return Some(printing);
    }
    let Some((frame, start)) = analysis.constant_address(arguments) else {
        return unknown;
    };
    let own = &code.symbols[frame.0 as usize];
    let fits = |size: u64| {
        u64::try_from(start)
            .ok()
            .and_then(|start| start.checked_add(printed.bytes.into()))
            .is_some_and(|end| end <= size)
    };
    if own.space != SymbolSpace::Local || !own.size.is_some_and(fits) {
        return unknown;
    }
    let (first, last) = around(analysis, index);
    let mut strings = Vec::new();
    for string in &printed.strings {
        let stored = stored(analysis, first, (frame, start + i64::from(string.at)));
        let pointers = stored.and_then(|(_, value)| constants(analysis, value));
        let is_terminated = |place: (SymbolId, i64)| {
            is_literal(code.symbols[place.0.0 as usize].name)
                && texts.at(analysis, symbols, place).is_some()
        };
        if pointers.is_some_and(|all| all.into_iter().all(is_terminated)) {
            continue;
        }
        strings.push(Argument {
            at: string.at,
            most: string.most,
            pointer: stored,
        });
    }
    if !strings.is_empty() {
        printing.print = Some(Print {
            buffer,
            first: first as u32,
            last: last as u32,
            strings,
        });
    }
    Some(printing)
}

/// The two arguments of a call: the stores, and what they store. They must be
/// unguarded, in the call's own scope.
fn passed(analysis: &Analysis<'_, '_>, index: usize, list: usize) -> Option<[Stored; 2]> {
    let code = &analysis.code;
    let call = &code.instructions[index];
    let OperandKind::List(names) = &call.instruction.operands.get(list)?.kind else {
        return None;
    };
    if names.len() != 2 {
        return None;
    }
    let (first, _) = around(analysis, index);
    let one = |element: usize| {
        let symbol = code
            .references_of(index)
            .iter()
            .find_map(|r| match r.referent {
                Referent::Symbol(symbol, 0)
                    if usize::from(r.operand) == list && usize::from(r.element) == element =>
                {
                    Some(symbol)
                }
                _ => None,
            })?;
        let mut all = (first..index).filter_map(|at| {
            let (of, pieces) = stores(analysis, at, index)?;
            (of == symbol).then_some(pieces)
        });
        let (pieces, others) = (all.next()?, all.next());
        let stored = match &pieces[..] {
            [piece] if piece.offset == 0 && others.is_none() => piece.stored?,
            _ => return None,
        };
        let is_here = code.instructions[stored.instruction as usize].scope == call.scope;
        (is_here && stored.value != Some(ValueId::NONE)).then_some(stored)
    };
    Some([one(0)?, one(1)?])
}

/// The first of the stores for a call, and the last of the loads of its result.
fn around(analysis: &Analysis<'_, '_>, index: usize) -> (usize, usize) {
    let code = &analysis.code;
    let block = analysis.cfg.block_of[index];
    let of_parameters = |at: usize, mnemonic: Mnemonic| {
        code.instructions.get(at).is_some_and(|inst| {
            let opcode = &inst.instruction.opcode;
            opcode.mnemonic() == mnemonic
                && (opcode.has(Modifier::Param) || opcode.has(Modifier::ParamFunc))
                && inst.scope == code.instructions[index].scope
                && analysis.cfg.block_of[at] == block
        })
    };
    let mut first = index;
    while first > 0 && of_parameters(first - 1, Mnemonic::St) {
        first -= 1;
    }
    let mut last = index;
    while of_parameters(last + 1, Mnemonic::Ld) {
        last += 1;
    }
    (first, last)
}

/// All places that a value may be the address of, if they are constants of the
/// text.
fn constants(analysis: &Analysis<'_, '_>, value: ValueId) -> Option<Vec<(SymbolId, i64)>> {
    /// Places and steps after which it counts as unknown.
    const MOST: usize = 64;
    let mut places = Vec::new();
    let mut seen = FxHashSet::default();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        if seen.len() > MOST {
            return None;
        }
        if let Some(place) = analysis.constant_address(value) {
            places.push(place);
            continue;
        }
        match analysis.ssa.value(value)?.definition {
            Definition::Undefined => return None,
            Definition::Phi { .. } => open.extend(analysis.ssa.phi_arguments(value)),
            Definition::Instruction {
                instruction,
                old: None,
                ..
            } => {
                let mnemonic = analysis.code.instructions[instruction as usize]
                    .instruction
                    .opcode
                    .mnemonic();
                let operands: &[u8] = match mnemonic {
                    Mnemonic::Selp => &[1, 2],
                    Mnemonic::Mov | Mnemonic::Cvta => &[1],
                    _ => return None,
                };
                let references = analysis.code.references_of(instruction as usize);
                for &operand in operands {
                    let read = references
                        .iter()
                        .find(|r| r.operand == operand && r.role == Role::Read)?;
                    match read.referent {
                        Referent::Symbol(symbol, offset) => places.push((symbol, offset)),
                        Referent::Wide(_) => open.push(read.value),
                        Referent::Other(_) => return None,
                    }
                }
            }
            Definition::Instruction { .. } => return None,
        }
    }
    (!places.is_empty()).then_some(places)
}

/// What the eight bytes at a place of the frame hold before an instruction, if
/// its block stored it there, nothing else may have changed it since, and its
/// register still holds it.
fn stored(
    analysis: &Analysis<'_, '_>,
    before: usize,
    (frame, at): (SymbolId, i64),
) -> Option<(Register, ValueId)> {
    let code = &analysis.code;
    let block = analysis.cfg.block_of[before];
    let mut written: FxHashSet<Register> = FxHashSet::default();
    for index in (0..before).rev() {
        if analysis.cfg.block_of[index] != block {
            return None;
        }
        let inst = &code.instructions[index];
        let instruction = inst.instruction;
        let opcode = &instruction.opcode;
        let references = code.references_of(index);
        match opcode.mnemonic() {
            Mnemonic::Call => return None,
            Mnemonic::St if opcode.has(Modifier::Local) || is_generic(opcode) => {
                let OperandKind::Address(address) = &instruction.operands.first()?.kind else {
                    return None;
                };
                let reference = code.address_of(index, 0)?;
                let (symbol, start) = match reference.referent {
                    Referent::Symbol(symbol, offset) => (symbol, offset),
                    Referent::Wide(_) => {
                        let (symbol, offset) = analysis.constant_address(reference.value)?;
                        (symbol, offset.checked_add(address.offset)?)
                    }
                    Referent::Other(_) => return None,
                };
                if symbol != frame {
                    continue;
                }
                let bytes = i64::from(opcode.types().last()?.bytes());
                let count = match &instruction.operands.get(1)?.kind {
                    OperandKind::Vector(elements) => elements.len(),
                    _ => 1,
                };
                for element in 0..count {
                    let from = start.checked_add(bytes.checked_mul(element as i64)?)?;
                    if from >= at + 8 || from + bytes <= at {
                        continue;
                    }
                    let register = references.iter().find_map(|r| match r.referent {
                        Referent::Wide(register)
                            if r.operand == 1 && usize::from(r.element) == element =>
                        {
                            Some((register, r.value))
                        }
                        _ => None,
                    })?;
                    let stands = from == at
                        && bytes == 8
                        && instruction.guard.is_none()
                        && register.1 != ValueId::NONE
                        && !written.contains(&register.0);
                    return stands.then_some(register);
                }
            }
            _ => written.extend(references.iter().filter_map(|r| match r.referent {
                Referent::Wide(register) if matches!(r.role, Role::Write | Role::Unknown) => {
                    Some(register)
                }
                _ => None,
            })),
        }
    }
    None
}

/// Whether an instruction's address may lie in any space.
fn is_generic(opcode: &ptx::Opcode<'_>) -> bool {
    !opcode.has_any(&[
        Modifier::Global,
        Modifier::Shared,
        Modifier::SharedCta,
        Modifier::SharedCluster,
        Modifier::Param,
        Modifier::ParamFunc,
        Modifier::Async,
    ])
}
