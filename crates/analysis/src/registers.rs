//! Which definition of a register reaches a place: SSA form on demand, for
//! registers of all classes (see [`crate::Ssa`] for the 64-bit ones, which
//! provenance names one and all).

use crate::cfg::{BlockId, Cfg};
use crate::code::Code;
use crate::dominators::{Dominators, Frontiers};
use crate::roles::Role;
use ptx::{Block, Instruction, OperandKind, Statement, Type, Variable, VariableSpace};
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of a register that some instruction mentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Register(pub(crate) u32);

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Predicate,
    /// An integer, or anything else, of so many bits.
    Bits(u8),
    Other,
}

/// A place where a register is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) instruction: u32,
    pub(crate) operand: u8,
    /// Index within a vector or pair.
    pub(crate) element: u8,
    /// The instruction is not known: it may write or not.
    pub(crate) unknown: bool,
}

/// The value of a register at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reaching {
    /// Written here: index into [`Registers::writes`].
    Write(Register, u32),
    /// At the head of a block, from its predecessors.
    Phi(Register, BlockId),
    /// Nowhere.
    Undefined(Register),
}

/// The registers of a function.
#[derive(Debug)]
pub(crate) struct Registers<'a> {
    names: FxHashMap<(u32, &'a str), Register>,
    classes: Vec<Class>,
    writes: Vec<Vec<Write>>,
    frontiers: Frontiers,
    phis: FxHashMap<Register, FxHashSet<BlockId>>,
    steps: usize,
}

impl<'a> Registers<'a> {
    /// Resolves the names of a function. `None` for code in which a name means
    /// two things in one scope, and for control flow so tangled that
    /// the answer would take too long.
    pub(crate) fn of(code: &Code<'_, 'a>, cfg: &Cfg, dominators: &Dominators) -> Option<Self> {
        let body = code.function.body.as_ref()?;
        let mut walk = Walk {
            code,
            registers: Registers {
                names: FxHashMap::default(),
                classes: Vec::new(),
                writes: Vec::new(),
                frontiers: dominators.frontiers(cfg, 64 * code.instructions.len() + (1 << 16))?,
                phis: FxHashMap::default(),
                steps: 0,
            },
            canonical: FxHashMap::default(),
            open: Vec::new(),
            scopes: 0,
            instruction: 0,
        };
        for variable in code
            .function
            .parameters
            .iter()
            .chain(&code.function.returns)
        {
            // Registers as parameters: a device function of old.
            if variable.space == VariableSpace::Reg {
                return None;
            }
        }
        walk.block(body)?;
        Some(walk.registers)
    }

    /// The register that `name` means in a scope.
    pub(crate) fn named(&self, scope: u32, name: &str) -> Option<Register> {
        self.names.get(&(scope, name)).copied()
    }

    /// Blocks that were passed on the way to definitions so far.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    pub(crate) fn class(&self, register: Register) -> Class {
        self.classes[register.0 as usize]
    }

    pub(crate) fn write(&self, register: Register, index: u32) -> Write {
        self.writes[register.0 as usize][index as usize]
    }

    /// What `register` holds before an instruction.
    pub(crate) fn before(
        &mut self,
        cfg: &Cfg,
        dominators: &Dominators,
        register: Register,
        instruction: u32,
    ) -> Reaching {
        let block = cfg.block_of[instruction as usize];
        self.reaching(cfg, dominators, register, block, instruction)
    }

    /// What `register` holds when control leaves a block.
    pub(crate) fn at_end(
        &mut self,
        cfg: &Cfg,
        dominators: &Dominators,
        register: Register,
        block: BlockId,
    ) -> Reaching {
        let end = cfg.blocks[block.0 as usize].end;
        self.reaching(cfg, dominators, register, block, end)
    }

    fn reaching(
        &mut self,
        cfg: &Cfg,
        dominators: &Dominators,
        register: Register,
        mut block: BlockId,
        mut before: u32,
    ) -> Reaching {
        // Most registers are written once, above what reads them. No phi of
        // theirs can stand between: it would have to be dominated by the write.
        if let [only] = self.writes[register.0 as usize][..] {
            let from = cfg.block_of[only.instruction as usize];
            let is_above = match from == block {
                true => only.instruction < before,
                false => dominators.dominates(from, block),
            };
            if is_above {
                return Reaching::Write(register, 0);
            }
        }
        self.place_phis(cfg, register);
        let writes = &self.writes[register.0 as usize];
        let phis = &self.phis[&register];
        loop {
            self.steps += 1;
            let first = cfg.blocks[block.0 as usize].first;
            let after = writes.partition_point(|write| write.instruction < before);
            if let Some(last) = after.checked_sub(1)
                && writes[last].instruction >= first
            {
                return Reaching::Write(register, last as u32);
            }
            if phis.contains(&block) {
                return Reaching::Phi(register, block);
            }
            match dominators.immediate(block) {
                Some(above) => {
                    block = above;
                    before = cfg.blocks[block.0 as usize].end;
                }
                None => return Reaching::Undefined(register),
            }
        }
    }

    fn place_phis(&mut self, cfg: &Cfg, register: Register) {
        if self.phis.contains_key(&register) {
            return;
        }
        let mut phis: FxHashSet<BlockId> = FxHashSet::default();
        let writes = self.writes[register.0 as usize].iter();
        let definitions = writes.map(|write| cfg.block_of[write.instruction as usize]);
        self.frontiers
            .joins(definitions, |join| Some(phis.insert(join)));
        self.phis.insert(register, phis);
    }
}

/// `%r<10>`: registers `%r0` to `%r9`.
struct Family<'a> {
    prefix: &'a str,
    count: u32,
    class: Class,
}

struct Open<'a> {
    number: u32,
    families: Vec<Family<'a>>,
    singles: FxHashMap<&'a str, Class>,
    has_instructions: bool,
}

struct Walk<'c, 'm, 'a> {
    code: &'c Code<'m, 'a>,
    registers: Registers<'a>,
    /// Registers by the scope that declares them.
    canonical: FxHashMap<(u32, &'a str), Register>,
    open: Vec<Open<'a>>,
    scopes: u32,
    instruction: u32,
}

impl<'a> Walk<'_, '_, 'a> {
    fn block(&mut self, block: &Block<'a>) -> Option<()> {
        self.open.push(Open {
            number: self.scopes,
            families: Vec::new(),
            singles: FxHashMap::default(),
            has_instructions: false,
        });
        self.scopes += 1;
        for statement in &block.statements {
            match statement {
                Statement::Variable(variable) if variable.space == VariableSpace::Reg => {
                    if self.means_two_things(variable)? {
                        return None;
                    }
                    let scope = self.open.last_mut()?;
                    let class = match variable.ty {
                        _ if variable.vector > 1 => Class::Other,
                        Type::Pred => Class::Predicate,
                        Type::B16 | Type::U16 | Type::S16 => Class::Bits(16),
                        Type::B32 | Type::U32 | Type::S32 => Class::Bits(32),
                        Type::B64 | Type::U64 | Type::S64 => Class::Bits(64),
                        _ => Class::Other,
                    };
                    match variable.range {
                        Some(count) => scope.families.push(Family {
                            prefix: variable.name,
                            count,
                            class,
                        }),
                        None => {
                            scope.singles.insert(variable.name, class);
                        }
                    }
                }
                Statement::Instruction(instruction) => {
                    self.open.last_mut()?.has_instructions = true;
                    self.instruction(instruction)?;
                    self.instruction += 1;
                }
                Statement::Block(inner) => {
                    // What it hides must not have been meant before in this
                    // scope under the same name; its own number sees to that.
                    self.block(inner)?;
                }
                _ => {}
            }
        }
        self.open.pop();
        Some(())
    }

    /// Whether instructions before a declaration in its scope have used a name
    /// of it, for something else.
    fn means_two_things(&self, variable: &Variable<'a>) -> Option<bool> {
        let scope = self.open.last()?;
        let declared = |name: &str| match variable.range {
            Some(count) => is_member(variable.name, count, name),
            None => variable.name == name,
        };
        let mut names = self.registers.names.keys();
        Some(
            scope.has_instructions && names.any(|(of, name)| *of == scope.number && declared(name)),
        )
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Option<()> {
        if let Some(guard) = instruction.guard {
            self.resolve(guard.register);
        }
        let roles = self.code.roles(self.instruction as usize);
        for (index, operand) in instruction.operands.iter().enumerate() {
            let index = index.min(255) as u8;
            let writes = match roles.operand(usize::from(index)) {
                Role::Write => Some(false),
                Role::Unknown => Some(true),
                Role::Read | Role::Address => None,
            };
            match &operand.kind {
                OperandKind::Name(name) | OperandKind::Not(name) => {
                    self.mention(name, index, 0, writes);
                }
                OperandKind::NameOffset(name, _) => self.mention(name, index, 0, writes),
                OperandKind::Pair(left, right) => {
                    self.mention(left, index, 0, writes);
                    self.mention(right, index, 1, writes);
                }
                OperandKind::Vector(elements) | OperandKind::List(elements) => {
                    for (element, operand) in elements.iter().enumerate() {
                        if let OperandKind::Name(name) = &operand.kind {
                            self.mention(name, index, element.min(255) as u8, writes);
                        }
                    }
                }
                OperandKind::Address(address) => {
                    if let Some(base) = address.base {
                        self.resolve(base);
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    fn mention(&mut self, name: &'a str, operand: u8, element: u8, writes: Option<bool>) {
        let Some(register) = self.resolve(name) else {
            return;
        };
        if let Some(unknown) = writes {
            self.registers.writes[register.0 as usize].push(Write {
                instruction: self.instruction,
                operand,
                element,
                unknown,
            });
        }
    }

    /// The register that a name means here, which later questions will get as
    /// an answer for this scope.
    fn resolve(&mut self, name: &'a str) -> Option<Register> {
        let here = self.open.last()?.number;
        if let Some(register) = self.registers.names.get(&(here, name)) {
            return Some(*register);
        }
        let (scope, class) = self.open.iter().rev().find_map(|scope| {
            let class = match scope.singles.get(name) {
                Some(class) => *class,
                None => {
                    scope
                        .families
                        .iter()
                        .find(|family| family.holds(name))?
                        .class
                }
            };
            Some((scope.number, class))
        })?;
        let registers = &mut self.registers;
        let register = *self.canonical.entry((scope, name)).or_insert_with(|| {
            registers.classes.push(class);
            registers.writes.push(Vec::new());
            Register(registers.classes.len() as u32 - 1)
        });
        registers.names.insert((here, name), register);
        Some(register)
    }
}

impl Family<'_> {
    fn holds(&self, name: &str) -> bool {
        is_member(self.prefix, self.count, name)
    }
}

/// Whether `prefix<count>` declares a name.
fn is_member(prefix: &str, count: u32, name: &str) -> bool {
    let Some(digits) = name.strip_prefix(prefix) else {
        return false;
    };
    // `%r01` is not a member of `%r<5>`.
    let is_number = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    is_number && digits.parse::<u32>().is_ok_and(|n| n < count)
}
