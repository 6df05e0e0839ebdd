//! A function's body as a flat list of instructions, with the names that
//! provenance depends on resolved.

use crate::names::{
    Class, Declared, Meaning, ModuleSymbols, Register, Scopes, Symbol, SymbolId, WideReg, is_narrow,
};
use crate::roles::{Role, Roles};
use ptx::table::Info;
use ptx::{
    Block, CallPrototype, Function, Instruction, Loc, Mnemonic, OperandKind, Span, Statement,
};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

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
    /// A register that is followed.
    Wide(WideReg),
    /// A variable or parameter, plus a constant.
    Symbol(SymbolId, i64),
}

/// One mention of a 64-bit register or a symbol by an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Index of the operand.
    pub operand: u8,
    /// Index within a vector or list operand.
    pub element: u8,
    /// What is done with it.
    pub role: Role,
    /// What it is.
    pub referent: Referent,
    /// For registers: the value read, or the value written. Filled by
    /// [`crate::Ssa::of`]; [`ValueId::NONE`] in unreachable code.
    pub value: ValueId,
}

/// One mention of any register by an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mention<'a> {
    pub(crate) name: &'a str,
    pub(crate) register: Register,
    pub(crate) class: Class,
    /// Index of the operand that may be written; `None` for guards and for
    /// what an address is based on.
    pub(crate) operand: Option<u8>,
    /// Index within a vector, list or pair.
    pub(crate) element: u8,
}

/// One instruction with its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Inst<'m, 'a> {
    /// The instruction.
    pub instruction: &'m Instruction<'a>,
    /// First and one past the last of its [`Reference`]s.
    pub references: (u32, u32),
    /// First and one past the last of its [`Mention`]s.
    mentions: (u32, u32),
    /// The closest `.loc` before it, in text order.
    pub loc: Option<&'m Loc<'a>>,
    /// The first of the `.pragma`s that stand directly before it, else the
    /// instruction itself: text that must stay attached to the instruction
    /// begins here.
    pub attached_from: u32,
    /// The innermost `{ … }` around it: names in different scopes may differ
    /// although their texts agree.
    pub scope: u32,
    /// Bytes of each register that operand 0 names, if it names registers of
    /// one size; else 0.
    pub register_bytes: u8,
    /// For `cp`: the last operand is a predicate register (`ignore-src`).
    pub ends_with_predicate: bool,
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
    mentions: Vec<Mention<'a>>,
    /// Number of all registers.
    pub(crate) declared: u32,
    /// Symbols that [`Referent::Symbol`] refers to.
    pub symbols: Vec<Symbol<'a>>,
    /// Number of registers that are followed.
    pub registers: u32,
    narrow: Vec<(u32, u32)>,
    /// Instruction indices that labels stand before, in order, deduplicated.
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
                mentions: Vec::new(),
                declared: 0,
                symbols: Vec::new(),
                registers: 0,
                narrow: Vec::new(),
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
        code.declared = scopes.declared;
        code.narrow = scopes.narrow;
        code.symbols = scopes.symbols;
        code.label_targets.dedup();
        Some(code)
    }

    /// Whether a register has 32 bits.
    pub fn is_narrow(&self, register: WideReg) -> bool {
        is_narrow(&self.narrow, register)
    }

    /// References of one instruction.
    pub fn references_of(&self, index: usize) -> &[Reference] {
        let (start, end) = self.instructions[index].references;
        &self.references[start as usize..end as usize]
    }

    /// Mentions of registers by one instruction.
    pub(crate) fn mentions_of(&self, index: usize) -> &[Mention<'a>] {
        let (start, end) = self.instructions[index].mentions;
        &self.mentions[start as usize..end as usize]
    }

    /// The register that an instruction names so.
    pub(crate) fn register(&self, index: usize, name: &str) -> Option<Register> {
        let mut mentions = self.mentions_of(index).iter();
        let mention = mentions.find(|mention| mention.name == name)?;
        Some(mention.register)
    }

    /// What the address that an operand holds is based on.
    pub fn address_of(&self, index: usize, operand: usize) -> Option<&Reference> {
        self.references_of(index).iter().find(|reference| {
            reference.role == Role::Address && usize::from(reference.operand) == operand
        })
    }

    /// What the instruction table says of an instruction that mentions an
    /// address, a 64-bit register or a symbol; `None` for opcodes it lacks
    /// and for instructions that mention none of these.
    pub fn info(&self, index: usize) -> Option<&Info> {
        self.infos
            .get(self.instructions[index].info as usize)?
            .as_ref()
    }

    /// What an instruction does with the registers that its operands name.
    pub(crate) fn roles(&self, index: usize) -> Roles<'_> {
        let inst = &self.instructions[index];
        match self.infos.get(inst.info as usize) {
            Some(Some(info)) => Roles::Tabled(Cow::Borrowed(info)),
            Some(None) => Roles::Unknown,
            None => Roles::of(inst.instruction),
        }
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

    /// The instruction that label `name` stands before, as seen from
    /// instruction `from`. May be one past the last.
    pub fn label(&self, from: usize, name: &str) -> Option<u32> {
        self.find(&self.labels, from, name)
    }

    /// What a `.callprototype` says under `name`.
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
        let first_mention = self.code.mentions.len() as u32;
        if let Some(guard) = instruction.guard {
            let meaning = self.scopes.resolve(guard.register);
            self.register(guard.register, meaning, None, 0);
        }
        let mut has_address = false;
        for (index, operand) in instruction.operands.iter().enumerate() {
            let index = index.min(255) as u8;
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
                            self.mention(name, 0, index, element.min(255) as u8, Role::Read);
                        }
                    }
                }
                OperandKind::Pair(left, right) => {
                    self.mention(left, 0, index, 0, Role::Read);
                    self.mention(right, 0, index, 1, Role::Read);
                }
                OperandKind::Not(name) => {
                    let meaning = self.scopes.resolve(name);
                    self.register(name, meaning, Some(index), 0);
                }
                _ => {}
            }
        }
        let end = self.code.references.len();
        let mut info = NO_INFO;
        if end > first || has_address {
            let roles = match has_address {
                // What is accessed is asked for, too.
                true => Roles::tabled(instruction),
                false => Roles::of(instruction),
            };
            for reference in &mut self.code.references[first..end] {
                if reference.role != Role::Address {
                    reference.role = roles.operand(usize::from(reference.operand));
                }
            }
            if !matches!(roles, Roles::Plain) {
                info = self.code.infos.len() as u32;
                self.code.infos.push(roles.into_info());
            }
        }
        let ends_with_predicate = instruction.opcode.mnemonic() == Mnemonic::Cp
            && match instruction.operands.last().map(|operand| &operand.kind) {
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
            mentions: (first_mention, self.code.mentions.len() as u32),
            loc: self.loc,
            attached_from,
            scope,
            ends_with_predicate,
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

    fn register(&mut self, name: &'a str, meaning: Meaning, operand: Option<u8>, element: u8) {
        if let Meaning::Register(declared) = meaning {
            self.code.mentions.push(Mention {
                name,
                register: declared.register,
                class: declared.class,
                operand,
                element,
            });
        }
    }

    fn mention(&mut self, name: &'a str, offset: i64, operand: u8, element: u8, role: Role) {
        let meaning = self.scopes.resolve(name);
        let written = (role != Role::Address).then_some(operand);
        self.register(name, meaning, written, element);
        let referent = match meaning {
            Meaning::Register(Declared {
                wide: Some(register),
                ..
            }) => Referent::Wide(register),
            Meaning::Symbol(symbol) => Referent::Symbol(symbol, offset),
            Meaning::Register(_) | Meaning::Nothing => return,
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
