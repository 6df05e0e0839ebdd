//! A function's body as a flat list of instructions, with the registers and
//! symbols that their operands name resolved.

use crate::names::{Class, Meaning, ModuleSymbols, Register, Registers, Scopes, Symbol, SymbolId};
use crate::roles::{Role, Roles};
use ptx::table::Info;
use ptx::{
    Block, CallPrototype, Function, Instruction, Loc, Mnemonic, OperandKind, Span, Statement,
    VariableSpace,
};
use rustc_hash::FxHashMap;

/// Number of a value of a register (see [`crate::Ssa`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// No value: the instruction is unreachable.
    pub const NONE: ValueId = ValueId(u32::MAX);
}

/// What a name in an operand refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referent {
    /// A register that may hold an address: one of 64 bits, or one of 32 where
    /// addresses in shared memory may be in such.
    Wide(Register),
    /// Any other register.
    Other(Register),
    /// A variable or parameter, plus a constant.
    Symbol(SymbolId, i64),
}

impl Referent {
    /// The register, if it is one.
    pub fn register(self) -> Option<Register> {
        match self {
            Referent::Wide(register) | Referent::Other(register) => Some(register),
            Referent::Symbol(..) => None,
        }
    }
}

/// One mention of a register or a symbol by an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Index of the operand; [`GUARD`] for the guard.
    pub operand: u8,
    /// Index within a vector, list or pair.
    pub element: u8,
    /// What is done with it.
    pub role: Role,
    /// What it is.
    pub referent: Referent,
    /// For registers: the value read, or the value written. Filled by
    /// [`crate::Ssa::of`]; [`ValueId::NONE`] in unreachable code.
    pub value: ValueId,
}

/// The operand of a [`Reference`] that is a guard.
pub const GUARD: u8 = u8::MAX;

/// One instruction with its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Inst<'m, 'a> {
    /// The instruction.
    pub instruction: &'m Instruction<'a>,
    /// First and one past the last of its [`Reference`]s.
    pub references: (u32, u32),
    /// The closest `.loc` of a line before it, in text order.
    pub loc: Option<&'m Loc<'a>>,
    /// The first of the `.pragma`s directly before it, else the instruction
    /// itself: from here on, the text must stay attached to the instruction.
    pub attached_from: u32,
    /// The innermost `{ … }` around it: names in different scopes may differ
    /// although their texts agree.
    pub scope: u32,
    /// Bytes of each register that operand 0 names, if it names registers of
    /// one size; else 0.
    pub register_bytes: u8,
    /// For `cp`: the fourth operand is a predicate (`ignore-src`).
    pub ignores_source: bool,
    info: u32,
}

/// A flat body.
#[derive(Debug)]
pub struct Code<'m, 'a> {
    /// The function.
    pub function: &'m Function<'a>,
    /// Its instructions in text order.
    pub instructions: Vec<Inst<'m, 'a>>,
    /// References of all instructions.
    pub references: Vec<Reference>,
    /// Symbols that [`Referent::Symbol`] refers to.
    pub symbols: Vec<Symbol<'a>>,
    registers: Registers,
    /// Indices of the instructions that labels precede, in order, deduplicated.
    pub label_targets: Vec<u32>,
    infos: Vec<Option<Info>>,
    labels: FxHashMap<(u32, &'a str), u32>,
    targets: FxHashMap<(u32, &'a str), &'m [&'a str]>,
    prototypes: FxHashMap<(u32, &'a str), &'m CallPrototype<'a>>,
    parents: Vec<u32>,
}

const NO_INFO: u32 = u32::MAX;

impl<'m, 'a> Code<'m, 'a> {
    /// Flattens `function`; `None` if it has no body.
    pub fn of(module: &ModuleSymbols<'a>, function: &'m Function<'a>) -> Option<Self> {
        let body = function.body.as_ref()?;
        let mut walk = Walk {
            code: Code {
                function,
                instructions: Vec::new(),
                references: Vec::new(),
                symbols: Vec::new(),
                registers: Registers::default(),
                label_targets: Vec::new(),
                infos: Vec::new(),
                labels: FxHashMap::default(),
                targets: FxHashMap::default(),
                prototypes: FxHashMap::default(),
                parents: vec![0],
            },
            scopes: Scopes::of(module, function),
            loc: None,
        };
        walk.block(body, 0);
        let Walk {
            mut code, scopes, ..
        } = walk;
        code.registers = scopes.registers;
        code.symbols = scopes.symbols;
        code.label_targets.dedup();
        Some(code)
    }

    /// Number of registers.
    pub fn registers(&self) -> u32 {
        self.registers.count
    }

    /// Whether a register has 32 bits.
    pub fn is_narrow(&self, register: Register) -> bool {
        self.class(register) == Class::Bits(32)
    }

    /// Whether a register may hold an address.
    pub fn is_wide(&self, register: Register) -> bool {
        self.registers.is_wide(register)
    }

    pub(crate) fn class(&self, register: Register) -> Class {
        self.registers.class(register)
    }

    /// Whether the function is one of old that gets parameters in registers.
    pub(crate) fn has_registers_as_parameters(&self) -> bool {
        let mut parameters = self
            .function
            .parameters
            .iter()
            .chain(&self.function.returns);
        parameters.any(|variable| variable.space == VariableSpace::Reg)
    }

    /// References of one instruction.
    pub fn references_of(&self, index: usize) -> &[Reference] {
        let (start, end) = self.instructions[index].references;
        &self.references[start as usize..end as usize]
    }

    /// The register or symbol that an operand names, or the one that the
    /// first element of a vector does.
    pub(crate) fn named(&self, index: usize, operand: usize) -> Option<&Reference> {
        self.references_of(index)
            .iter()
            .find(|r| usize::from(r.operand) == operand && r.element == 0)
    }

    /// The guard of an instruction, if it is a register.
    pub fn guard(&self, index: usize) -> Option<&Reference> {
        let last = self.references_of(index).last()?;
        (last.role == Role::Guard).then_some(last)
    }

    /// What the address that an operand holds is based on, if that may hold
    /// one.
    pub fn address_of(&self, index: usize, operand: usize) -> Option<&Reference> {
        self.references_of(index).iter().find(|reference| {
            reference.role == Role::Address
                && usize::from(reference.operand) == operand
                && !matches!(reference.referent, Referent::Other(_))
        })
    }

    /// The row of the instruction table for an instruction that mentions an
    /// address, a 64-bit register or a symbol; `None` for opcodes it lacks and
    /// for instructions that mention none of these.
    pub fn info(&self, index: usize) -> Option<&Info> {
        self.infos
            .get(self.instructions[index].info as usize)?
            .as_ref()
    }

    /// The integer that an operand is.
    pub(crate) fn constant(&self, index: usize, operand: usize) -> Option<i64> {
        match self.instructions[index]
            .instruction
            .operands
            .get(operand)?
            .kind
        {
            OperandKind::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the table was asked and had no answer.
    pub fn is_unclassified(&self, index: usize) -> bool {
        self.infos
            .get(self.instructions[index].info as usize)
            .is_some_and(Option::is_none)
    }

    /// The instruction after label `name`, as seen from instruction `from`. May
    /// be one past the last.
    pub fn label(&self, from: usize, name: &str) -> Option<u32> {
        self.find(&self.labels, from, name)
    }

    /// The `.callprototype` with the label `name`.
    pub fn call_prototype(&self, from: usize, name: &str) -> Option<&'m CallPrototype<'a>> {
        self.find(&self.prototypes, from, name)
    }

    /// The names that `.branchtargets` or `.calltargets` lists under `name`.
    pub fn branch_targets(&self, from: usize, name: &str) -> Option<&'m [&'a str]> {
        self.find(&self.targets, from, name)
    }

    fn find<T: Copy>(
        &self,
        map: &FxHashMap<(u32, &'a str), T>,
        from: usize,
        name: &str,
    ) -> Option<T> {
        let mut scope = self.instructions[from].scope;
        loop {
            if let Some(found) = map.get(&(scope, name)) {
                return Some(*found);
            }
            if scope == 0 {
                return None;
            }
            scope = self.parents[scope as usize];
        }
    }
}

struct Walk<'s, 'm, 'a> {
    code: Code<'m, 'a>,
    scopes: Scopes<'s, 'a>,
    loc: Option<&'m Loc<'a>>,
}

impl<'m, 'a> Walk<'_, 'm, 'a> {
    fn block(&mut self, block: &'m Block<'a>, scope: u32) {
        let mut pragma: Option<Span> = None;
        for statement in &block.statements {
            let here = self.code.instructions.len() as u32;
            match statement {
                Statement::Pragma(span) => {
                    pragma = pragma.or(Some(*span));
                    continue;
                }
                Statement::Label(label) => {
                    self.code.labels.insert((scope, label.name), here);
                    self.code.label_targets.push(here);
                }
                Statement::Instruction(instruction) => {
                    let attached = pragma.map_or(instruction.span.start, |span| span.start);
                    self.instruction(instruction, scope, attached);
                }
                Statement::Variable(variable) => self.scopes.declare(variable),
                Statement::Block(inner) => {
                    let child = self.code.parents.len() as u32;
                    self.code.parents.push(scope);
                    self.scopes.enter();
                    self.block(inner, child);
                    self.scopes.leave();
                }
                // Line 0 is code that the compiler made for the line before it.
                Statement::Loc(loc) if loc.line == 0 => {}
                Statement::Loc(loc) => self.loc = Some(loc),
                Statement::Targets(targets) => {
                    self.code
                        .targets
                        .insert((scope, targets.label), &targets.names);
                }
                Statement::CallPrototype(prototype) => {
                    let key = (scope, prototype.label);
                    self.code.prototypes.insert(key, prototype);
                }
                Statement::Other(_) => {}
            }
            pragma = None;
        }
    }

    fn instruction(&mut self, instruction: &'m Instruction<'a>, scope: u32, attached_from: u32) {
        let first = self.code.references.len();
        let mut has_address = false;
        for (index, operand) in instruction.operands.iter().enumerate() {
            let index = index.min(usize::from(GUARD) - 1) as u8;
            match &operand.kind {
                OperandKind::Name(name) => self.mention(name, 0, index, 0, Role::Read),
                OperandKind::NameOffset(name, offset) => {
                    self.mention(name, *offset, index, 0, Role::Read)
                }
                OperandKind::Address(address) => {
                    has_address = true;
                    if let Some(base) = address.base {
                        self.mention(base, address.offset, index, 0, Role::Address);
                    }
                }
                OperandKind::Vector(elements) | OperandKind::List(elements) => {
                    for (element, operand) in elements.iter().enumerate() {
                        if let OperandKind::Name(name) = &operand.kind {
                            let element = element.min(usize::from(u8::MAX)) as u8;
                            self.mention(name, 0, index, element, Role::Read);
                        }
                    }
                }
                OperandKind::Pair(left, right) => {
                    self.mention(left, 0, index, 0, Role::Read);
                    self.mention(right, 0, index, 1, Role::Read);
                }
                OperandKind::Not(name) => self.mention(name, 0, index, 0, Role::Read),
                _ => {}
            }
        }
        let info = self.roles(instruction, first, has_address);
        if let Some(guard) = instruction.guard {
            self.mention(guard.register, 0, GUARD, 0, Role::Guard);
        }
        let end = self.code.references.len();
        let ignores_source = instruction.opcode.mnemonic() == Mnemonic::Cp
            && match instruction.operands.get(3).map(|operand| &operand.kind) {
                Some(OperandKind::Name(name)) => {
                    matches!(self.scopes.resolve(name), Meaning::Register(declared) if declared.class == Class::Predicate)
                }
                Some(OperandKind::Not(_)) => true,
                _ => false,
            };
        let register_bytes = if has_address {
            self.register_bytes(instruction)
        } else {
            0
        };
        self.code.instructions.push(Inst {
            instruction,
            register_bytes,
            references: (first as u32, end as u32),
            loc: self.loc,
            attached_from,
            scope,
            ignores_source,
            info,
        });
    }

    fn register_bytes(&mut self, instruction: &Instruction<'a>) -> u8 {
        let mut bytes = 0;
        let mut one = |kind: &OperandKind<'a>| match kind {
            OperandKind::Name(name) => {
                let own = self.scopes.register_bytes(name);
                let agrees = own > 0 && (bytes == 0 || bytes == own);
                bytes = own;
                agrees
            }
            OperandKind::Sink => true,
            _ => false,
        };
        let agree = match instruction.operands.first().map(|operand| &operand.kind) {
            Some(OperandKind::Vector(elements)) => elements.iter().all(|e| one(&e.kind)),
            Some(kind) => one(kind),
            None => false,
        };
        if agree { bytes } else { 0 }
    }

    /// Fills in how an instruction uses the names in its operands, from
    /// reference `first` on. Returns the place where the code keeps the
    /// instruction's row of the table.
    fn roles(&mut self, instruction: &Instruction<'a>, first: usize, has_address: bool) -> u32 {
        let references = &mut self.code.references[first..];
        if references.is_empty() && !has_address {
            return NO_INFO;
        }
        let roles = match has_address {
            // What is accessed is asked for, too.
            true => Roles::tabled(instruction),
            false => Roles::of(instruction),
        };
        let mut may_access = has_address;
        for reference in references {
            may_access |= !matches!(reference.referent, Referent::Other(_));
            if reference.role != Role::Address {
                reference.role = roles.operand(usize::from(reference.operand));
            }
        }
        if !may_access || matches!(roles, Roles::Plain) {
            return NO_INFO;
        }
        self.code.infos.push(roles.into_info());
        self.code.infos.len() as u32 - 1
    }

    fn mention(&mut self, name: &'a str, offset: i64, operand: u8, element: u8, role: Role) {
        let referent = match self.scopes.resolve(name) {
            Meaning::Register(declared) if declared.is_wide => Referent::Wide(declared.register),
            Meaning::Register(declared) => Referent::Other(declared.register),
            Meaning::Symbol(symbol) => Referent::Symbol(symbol, offset),
            Meaning::Nothing => return,
        };
        self.code.references.push(Reference {
            operand,
            element,
            role,
            referent,
            value: ValueId::NONE,
        });
    }
}
