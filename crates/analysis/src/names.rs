//! What a name means at a place in a function: a register, a variable, a
//! parameter, or nothing the analysis follows.
//!
//! PTX scopes nest (`{ .reg … }`), and inner declarations hide outer ones.

use debuginfo::DebugInfo;
use ptx::{Function, Instruction, Mnemonic, Modifier, Module, OperandKind, Type, VariableSpace};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// A register of a function. Numbered densely, in the order of the
/// declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u32);

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Predicate,
    /// An integer, or anything else, of so many bits.
    Bits(u8),
    Other,
}

impl Class {
    fn of(variable: &ptx::Variable<'_>) -> Class {
        match variable.ty {
            _ if variable.vector > 1 => Class::Other,
            Type::Pred => Class::Predicate,
            Type::B16 | Type::U16 | Type::S16 => Class::Bits(16),
            Type::B32 | Type::U32 | Type::S32 => Class::Bits(32),
            Type::B64 | Type::U64 | Type::S64 => Class::Bits(64),
            _ => Class::Other,
        }
    }
}

/// A variable or parameter that a function mentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SymbolId(pub u32);

/// Where a symbol lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolSpace {
    /// `.global`
    Global,
    /// `.const`
    Const,
    /// `.shared`
    Shared,
    /// `.local`
    Local,
    /// A parameter of an entry, at this offset in the parameter block.
    EntryParameter {
        /// Bytes from the start of the parameter block.
        offset: u32,
        /// Declared with `.ptr`.
        is_pointer: bool,
    },
    /// A parameter of a function that is not an entry, where it is nothing but
    /// what callers store there.
    Argument {
        /// Bytes from the start of what the parameters would be as a block.
        offset: u32,
    },
    /// A parameter of a call, or what a function returns.
    CallParameter,
    /// A function, label, texture, …
    Other,
}

/// A symbol as a function sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name.
    pub name: &'a str,
    /// Space.
    pub space: SymbolSpace,
    /// Size in bytes, if the declaration fixes it. Arrays without a length have
    /// none, nor has `.common`, whose size another file may increase.
    pub size: Option<u64>,
    /// Bytes that its address is a multiple of, by its declaration.
    pub alignment: u32,
}

impl Symbol<'_> {
    /// Where among all parameters these bytes of a parameter lie. `None`: it is none of
    /// the function's, or they are not all in it, so that what is read there is not its
    /// value.
    pub fn parameter_place(&self, offset: i64, bytes: u64) -> Option<u32> {
        let start = match self.space {
            SymbolSpace::EntryParameter { offset, .. } | SymbolSpace::Argument { offset } => offset,
            _ => return None,
        };
        let offset = u32::try_from(offset).ok()?;
        let end = u64::from(offset).checked_add(bytes)?;
        self.size.filter(|&size| end <= size)?;
        start.checked_add(offset)
    }
}

/// Symbols at file scope.
#[derive(Clone, Debug, Default)]
pub struct ModuleSymbols<'a> {
    map: FxHashMap<&'a str, Symbol<'a>>,
    /// Debug information about variables; empty if the module has none, or none
    /// that can be read.
    pub(crate) debug: DebugInfo,
    /// Array fields of structs are distinguished.
    pub(crate) has_fields: bool,
}

impl<'a> ModuleSymbols<'a> {
    /// Collects the symbols of `module`.
    pub fn of(module: &Module<'a>) -> Self {
        let mut map = FxHashMap::default();
        for item in &module.items {
            let symbol = match item {
                ptx::Item::Variable(variable) => symbol_of(variable),
                ptx::Item::Function(function) => Symbol {
                    name: function.name,
                    space: SymbolSpace::Other,
                    size: None,
                    alignment: 1,
                },
                _ => continue,
            };
            map.insert(symbol.name, symbol);
        }
        ModuleSymbols {
            map,
            // Without it there are fewer names, and nothing else is wrong.
            debug: DebugInfo::of(module).unwrap_or_default(),
            has_fields: true,
        }
    }

    /// Treats array fields as part of their structs.
    pub fn forget_fields(&mut self) {
        self.has_fields = false;
    }

    /// The symbol of that name.
    pub fn get(&self, name: &str) -> Option<&Symbol<'a>> {
        self.map.get(name)
    }
}

fn symbol_of<'a>(variable: &ptx::Variable<'a>) -> Symbol<'a> {
    let space = match variable.space {
        VariableSpace::Global => SymbolSpace::Global,
        VariableSpace::Const => SymbolSpace::Const,
        VariableSpace::Shared => SymbolSpace::Shared,
        VariableSpace::Local => SymbolSpace::Local,
        VariableSpace::Param => SymbolSpace::CallParameter,
        VariableSpace::Reg | VariableSpace::Sreg | VariableSpace::Tex => SymbolSpace::Other,
    };
    let size = if variable.linkage == ptx::Linkage::Common {
        None
    } else {
        variable.size()
    };
    Symbol {
        name: variable.name,
        space,
        size: size.filter(|&size| size > 0),
        alignment: variable.alignment().max(1),
    }
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Register(Declared),
    Symbol(SymbolId),
    /// A label, a special register, a constant.
    Nothing,
}

/// A register as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) register: Register,
    pub(crate) class: Class,
    /// It may hold an address.
    pub(crate) is_wide: bool,
    /// Bytes of an element; 0 for predicates.
    bytes: u8,
}

impl Declared {
    /// The register that is declared so many places later.
    fn plus(mut self, number: u32) -> Declared {
        self.register.0 = self.register.0.saturating_add(number);
        self
    }
}

/// All registers of a function, as they are declared: the first of each
/// declaration, in order.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    declarations: Vec<Declared>,
    /// How many there are.
    pub(crate) count: u32,
}

impl Registers {
    fn declaration(&self, register: Register) -> Option<&Declared> {
        let after = self
            .declarations
            .partition_point(|first| first.register <= register);
        self.declarations.get(after.checked_sub(1)?)
    }

    pub(crate) fn class(&self, register: Register) -> Class {
        self.declaration(register)
            .map_or(Class::Other, |declared| declared.class)
    }

    /// Whether a register may hold an address.
    pub(crate) fn is_wide(&self, register: Register) -> bool {
        self.declaration(register)
            .is_some_and(|declared| declared.is_wide)
    }
}

/// `%rd<10>`: registers `%rd0` to `%rd9`.
struct Family<'a> {
    prefix: &'a str,
    count: u32,
    first: Declared,
    depth: u32,
}

/// The scopes open at a place in a function.
pub(crate) struct Scopes<'m, 'a> {
    module: &'m ModuleSymbols<'a>,
    families: Vec<Family<'a>>,
    single: FxHashMap<&'a str, (Meaning, u32)>,
    /// What declarations in open scopes hid, to be put back when they close.
    hidden: Vec<(&'a str, Option<(Meaning, u32)>)>,
    open: Vec<(usize, usize)>,
    depth: u32,
    pub(crate) registers: Registers,
    /// Whether 32-bit registers may hold addresses, such as those in shared memory, or
    /// the difference of two.
    has_narrow_addresses: bool,
    pub(crate) symbols: Vec<Symbol<'a>>,
    from_module: FxHashMap<&'a str, SymbolId>,
}

impl<'m, 'a> Scopes<'m, 'a> {
    pub(crate) fn of(module: &'m ModuleSymbols<'a>, function: &Function<'a>) -> Self {
        let mut scopes = Scopes {
            module,
            families: Vec::new(),
            single: FxHashMap::default(),
            hidden: Vec::new(),
            open: Vec::new(),
            depth: 0,
            registers: Registers::default(),
            has_narrow_addresses: has_short_addresses(function) || narrows_differences(function),
            symbols: Vec::new(),
            from_module: FxHashMap::default(),
        };
        let mut offset = 0u64;
        let are_arguments = function
            .parameters
            .iter()
            .all(|parameter| parameter.space == VariableSpace::Param);
        let taken = if function.is_entry || !are_arguments {
            FxHashSet::default()
        } else {
            addresses_taken(function)
        };
        for parameter in &function.parameters {
            if parameter.space == VariableSpace::Reg {
                scopes.declare(parameter);
                continue;
            }
            let mut symbol = symbol_of(parameter);
            let align = u64::from(parameter.alignment().max(1));
            offset = offset.div_ceil(align) * align;
            let at = u32::try_from(offset).unwrap_or(u32::MAX);
            offset = offset.saturating_add(parameter.size().unwrap_or(0));
            symbol.space = if function.is_entry {
                SymbolSpace::EntryParameter {
                    offset: at,
                    is_pointer: parameter.is_pointer,
                }
            } else if are_arguments && !taken.contains(parameter.name) {
                SymbolSpace::Argument { offset: at }
            } else {
                SymbolSpace::CallParameter
            };
            scopes.declare_symbol(symbol);
        }
        for variable in &function.returns {
            if variable.space == VariableSpace::Reg {
                scopes.declare(variable);
            } else {
                scopes.declare_symbol(symbol_of(variable));
            }
        }
        scopes
    }

    pub(crate) fn enter(&mut self) {
        self.open.push((self.families.len(), self.hidden.len()));
        self.depth += 1;
    }

    pub(crate) fn leave(&mut self) {
        let Some((families, hidden)) = self.open.pop() else {
            return;
        };
        self.depth -= 1;
        self.families.truncate(families);
        while self.hidden.len() > hidden {
            match self.hidden.pop() {
                Some((name, Some(old))) => {
                    self.single.insert(name, old);
                }
                Some((name, None)) => {
                    self.single.remove(name);
                }
                None => {}
            }
        }
    }

    pub(crate) fn declare(&mut self, variable: &ptx::Variable<'a>) {
        if variable.space != VariableSpace::Reg {
            return self.declare_symbol(symbol_of(variable));
        }
        let class = Class::of(variable);
        let first = Declared {
            register: Register(self.registers.count),
            class,
            is_wide: match class {
                Class::Bits(64) => true,
                Class::Bits(32) => self.has_narrow_addresses,
                _ => false,
            },
            bytes: variable.ty.bytes() as u8,
        };
        let count = variable.range.unwrap_or(1);
        self.registers.count = self.registers.count.saturating_add(count);
        self.registers.declarations.push(first);
        match variable.range {
            Some(count) => {
                self.families.push(Family {
                    prefix: variable.name,
                    count,
                    first,
                    depth: self.depth,
                });
            }
            None => self.bind(variable.name, Meaning::Register(first)),
        }
    }

    fn declare_symbol(&mut self, symbol: Symbol<'a>) {
        let id = SymbolId(self.symbols.len() as u32);
        self.symbols.push(symbol);
        self.bind(symbol.name, Meaning::Symbol(id));
    }

    fn bind(&mut self, name: &'a str, meaning: Meaning) {
        let old = self.single.insert(name, (meaning, self.depth));
        if !self.open.is_empty() {
            self.hidden.push((name, old));
        }
    }

    /// Bytes of the register that `name` is here; 0 if it is none.
    pub(crate) fn register_bytes(&mut self, name: &str) -> u8 {
        match self.resolve(name) {
            Meaning::Register(declared) => declared.bytes,
            Meaning::Symbol(_) | Meaning::Nothing => 0,
        }
    }

    /// What `name` means here.
    pub(crate) fn resolve(&mut self, name: &str) -> Meaning {
        let family = self.family(name);
        if let Some((meaning, depth)) = family
            && self
                .single
                .get(name)
                .is_none_or(|(_, single)| *single <= depth)
        {
            return meaning;
        }
        if let Some((meaning, _)) = self.single.get(name) {
            return *meaning;
        }
        if name.starts_with('%') {
            return Meaning::Nothing;
        }
        if let Some(id) = self.from_module.get(name) {
            return Meaning::Symbol(*id);
        }
        match self.module.get(name) {
            Some(symbol) => {
                let id = SymbolId(self.symbols.len() as u32);
                self.symbols.push(*symbol);
                self.from_module.insert(symbol.name, id);
                Meaning::Symbol(id)
            }
            None => Meaning::Nothing,
        }
    }

    /// The innermost family that `name` is a member of.
    fn family(&self, name: &str) -> Option<(Meaning, u32)> {
        let bytes = name.as_bytes();
        if !bytes.last().is_some_and(u8::is_ascii_digit) {
            return None;
        }
        for family in self.families.iter().rev() {
            let Some(digits) = name.strip_prefix(family.prefix) else {
                continue;
            };
            if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit())
            {
                continue;
            }
            // `%r01` is not a member of `%r<5>`.
            if digits.len() > 1 && digits.starts_with('0') {
                continue;
            }
            let number: u32 = digits.parse().unwrap_or(u32::MAX);
            if number >= family.count {
                continue;
            }
            return Some((Meaning::Register(family.first.plus(number)), family.depth));
        }
        None
    }
}

/// Names that instructions mention outside of the address of a `ld`: what
/// parameters are among them may be written by their address.
fn addresses_taken<'a>(function: &Function<'a>) -> FxHashSet<&'a str> {
    let mut taken = FxHashSet::default();
    for (_, statement) in function.statements() {
        let ptx::Statement::Instruction(instruction) = statement else {
            continue;
        };
        for operand in &instruction.operands {
            let is_loaded = instruction.opcode.mnemonic() == Mnemonic::Ld
                && matches!(operand.kind, ptx::OperandKind::Address(_));
            if !is_loaded {
                operand.names(&mut |name| {
                    if !name.starts_with('%') {
                        taken.insert(name);
                    }
                });
            }
        }
    }
    taken
}

/// Whether a function may compute addresses of 32 bits: some instruction names shared
/// memory, whose addresses compilers keep so, or takes an address as a number of 32 bits, as
/// LLVM does in local and constant memory where it is asked for short pointers.
fn has_short_addresses(function: &Function<'_>) -> bool {
    function.statements().any(|(_, statement)| match statement {
        ptx::Statement::Instruction(instruction) => {
            let spaces = [
                Modifier::Shared,
                Modifier::SharedCta,
                Modifier::SharedCluster,
            ];
            instruction.opcode.has_any(&spaces) || takes_short_address(instruction)
        }
        _ => false,
    })
}

/// Whether an instruction moves the address of a variable to a register of 32 bits.
fn takes_short_address(instruction: &Instruction<'_>) -> bool {
    let opcode = &instruction.opcode;
    let from = instruction.operands.get(1).map(|operand| &operand.kind);
    opcode.mnemonic() == Mnemonic::Mov
        && opcode.types().all(|ty| ty.bytes() == 4)
        && matches!(from, Some(OperandKind::Name(name)) if !name.starts_with('%'))
}

/// Whether a function may make a 32-bit number of the difference of two
/// pointers: `int distance = to - from;`.
fn narrows_differences(function: &Function<'_>) -> bool {
    let (mut subtracts, mut narrows) = (false, false);
    for (_, statement) in function.statements() {
        let ptx::Statement::Instruction(instruction) = statement else {
            continue;
        };
        let opcode = &instruction.opcode;
        match opcode.mnemonic() {
            Mnemonic::Sub => {
                subtracts |= opcode.types().any(|ty| matches!(ty, Type::S64 | Type::U64))
            }
            Mnemonic::Cvt => narrows |= opcode.types().map(Type::bytes).eq([4, 8]),
            _ => {}
        }
    }
    subtracts && narrows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_parameter_is_not_the_parameters() {
        let of = |space, size| Symbol {
            name: "p",
            space,
            size,
            alignment: 8,
        };
        let entry = SymbolSpace::EntryParameter {
            offset: 16,
            is_pointer: false,
        };
        let parameter = of(entry, Some(24));
        assert_eq!(parameter.parameter_place(0, 24), Some(16));
        assert_eq!(parameter.parameter_place(16, 8), Some(32));
        for (offset, bytes) in [(17, 8), (24, 1), (-8, 8), (i64::MAX, 8), (8, u64::MAX)] {
            assert_eq!(parameter.parameter_place(offset, bytes), None);
        }
        assert_eq!(of(entry, None).parameter_place(0, 8), None);
        let argument = of(SymbolSpace::Argument { offset: 8 }, Some(8));
        assert_eq!(argument.parameter_place(0, 8), Some(8));
        let call = of(SymbolSpace::CallParameter, Some(8));
        assert_eq!(call.parameter_place(0, 8), None);
    }
}
