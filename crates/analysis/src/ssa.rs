//! SSA form beside the text, which is never rewritten: each register that an
//! instruction reads or writes has a value ([`crate::Reference::value`]).
//! Provenance, low bits and ranges are analyses of these values.
//!
//! A predicated definition makes a new value that may be the old one: it
//! remembers both ([`Definition::Instruction::old`]).

use crate::cfg::{BlockId, Cfg};
use crate::code::{Code, Reference, Referent, ValueId};
use crate::dominators::Dominators;
use crate::names::Register;
use crate::phis::{Phi, Phis};
use crate::roles::Role;
use std::ops::Range;

/// Where a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Read before any definition. A register has one such value.
    Undefined,
    /// At the head of a block, from its predecessors; arguments are
    /// [`Ssa::phi_arguments`], in the order of [`crate::BasicBlock::predecessors`].
    /// (What a register holds where the function starts is none of them, if
    /// the first block has predecessors, too.)
    Phi {
        /// First argument's place.
        first: u32,
        /// One past the last argument's.
        end: u32,
    },
    /// By an instruction.
    Instruction {
        /// Index of the instruction.
        instruction: u32,
        /// Index of the [`crate::Reference`] that writes it.
        reference: u32,
        /// The register's value before, if it may survive: the instruction is
        /// predicated, or not known.
        old: Option<ValueId>,
    },
}

/// One value of one register.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// The register.
    pub register: Register,
    /// Block where it is made.
    pub block: BlockId,
    /// How it is made.
    pub definition: Definition,
}

/// All values of a function.
#[derive(Clone, Debug, Default)]
pub struct Ssa {
    /// Values: the phis, block by block; then those made by instructions, in
    /// dominator-tree preorder.
    pub values: Vec<Value>,
    arguments: Vec<ValueId>,
    /// For each block, one past the last of its phis.
    ends_of_phis: Vec<u32>,
    wide: Vec<ValueId>,
}

impl Ssa {
    /// Gives every reference to a register in `code` its value. For some
    /// control flow this would take time quadratic in the size of the function.
    /// Then no reference has a value, or only references to registers that can
    /// hold addresses have one; the others are treated as unreachable.
    pub fn of(code: &mut Code<'_, '_>, cfg: &Cfg, dominators: &Dominators) -> Ssa {
        match Phis::place(code, cfg, dominators) {
            Some(phis) => Rename::all(code, cfg, dominators, &phis),
            None => Ssa::default(),
        }
    }

    /// The value with that number.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.0 as usize)
    }

    /// The values of registers that may hold addresses, in order.
    pub fn wide_values(&self) -> &[ValueId] {
        &self.wide
    }

    /// The phis at the head of a block.
    pub fn phis(&self, block: BlockId) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        let Range { start, end } = phis_of(&self.ends_of_phis, block);
        (start..end).map(ValueId)
    }

    /// The arguments of a phi; [`ValueId::NONE`] from unreachable blocks.
    pub fn phi_arguments(&self, value: ValueId) -> &[ValueId] {
        match self.value(value).map(|value| value.definition) {
            Some(Definition::Phi { first, end }) => &self.arguments[first as usize..end as usize],
            _ => &[],
        }
    }

    /// The argument of a phi for the edge from a block.
    pub fn phi_argument(&self, cfg: &Cfg, phi: ValueId, from: BlockId) -> Option<ValueId> {
        let block = self.value(phi)?.block;
        let predecessors = &cfg.blocks[block.0 as usize].predecessors;
        let place = predecessors.iter().position(|&other| other == from)?;
        self.phi_arguments(phi).get(place).copied()
    }

    /// The instruction that alone makes a value: no join of several, and none
    /// that may leave what was there before.
    pub fn made_by(&self, value: ValueId) -> Option<usize> {
        match self.value(value)?.definition {
            Definition::Instruction {
                instruction,
                old: None,
                ..
            } => Some(instruction as usize),
            _ => None,
        }
    }

    /// The instruction that alone makes a value, and what its first source
    /// refers to, if that is a value or a symbol.
    pub fn source<'c>(
        &self,
        code: &'c Code<'_, '_>,
        value: ValueId,
    ) -> Option<(usize, &'c Reference)> {
        let at = self.made_by(value)?;
        let mut references = code.references_of(at).iter();
        let source = references.find(|r| r.operand == 1 && r.role == Role::Read)?;
        Some((at, source))
    }
}

impl Ssa {
    fn add(
        &mut self,
        register: Register,
        is_wide: bool,
        block: BlockId,
        definition: Definition,
    ) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.push(Value {
            register,
            block,
            definition,
        });
        if is_wide {
            self.wide.push(id);
        }
        id
    }
}

/// The numbers of a block's phis, which are their values.
fn phis_of(ends: &[u32], block: BlockId) -> Range<u32> {
    let at = block.0 as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before));
    let start = start.copied().unwrap_or(0);
    start..ends.get(at).copied().unwrap_or(start)
}

/// Walks the dominator tree and names the values.
struct Rename<'x, 'm, 'a> {
    code: &'x mut Code<'m, 'a>,
    cfg: &'x Cfg,
    phis: &'x Phis,
    entry: BlockId,
    ssa: Ssa,
    /// The value of each register here.
    current: Vec<ValueId>,
    /// What values were before, on the way from the entry.
    undo: Vec<(Register, ValueId)>,
}

impl<'x, 'm, 'a> Rename<'x, 'm, 'a> {
    fn all(
        code: &'x mut Code<'m, 'a>,
        cfg: &'x Cfg,
        dominators: &'x Dominators,
        phis: &'x Phis,
    ) -> Ssa {
        let mut ssa = Ssa::default();
        make_phis(&mut ssa, cfg, phis);
        let Some(&entry) = cfg.order.first() else {
            return ssa;
        };
        ssa.values.reserve(code.instructions.len());
        let mut rename = Rename {
            current: vec![ValueId::NONE; code.registers() as usize],
            undo: Vec::new(),
            code,
            cfg,
            phis,
            entry,
            ssa,
        };
        let mut stack = vec![(entry, 0, 0)];
        rename.enter(entry);
        while let Some((block, next, mark)) = stack.last_mut() {
            match dominators.children(*block).get(*next) {
                Some(&child) => {
                    *next += 1;
                    stack.push((child, 0, rename.undo.len()));
                    rename.enter(child);
                }
                None => {
                    rename.leave(*mark);
                    stack.pop();
                }
            }
        }
        rename.ssa
    }

    fn enter(&mut self, block: BlockId) {
        for phi in phis_of(&self.ssa.ends_of_phis, block) {
            let register = self.phis.all[phi as usize].register;
            self.set(register, ValueId(phi));
        }
        for index in self.cfg.instructions(block) {
            self.instruction(index, block);
        }
        self.hand_on(block);
    }

    fn leave(&mut self, mark: usize) {
        for (register, old) in self.undo.drain(mark..).rev() {
            self.current[register.0 as usize] = old;
        }
    }

    /// The current value of a register; an undefined one is made on demand,
    /// and stays current wherever nothing defines the register.
    fn read(&mut self, register: Register) -> ValueId {
        let current = &mut self.current[register.0 as usize];
        if *current == ValueId::NONE {
            let is_wide = self.code.is_wide(register);
            let entry = self.entry;
            *current = self
                .ssa
                .add(register, is_wide, entry, Definition::Undefined);
        }
        *current
    }

    fn set(&mut self, register: Register, value: ValueId) {
        let current = &mut self.current[register.0 as usize];
        self.undo.push((register, *current));
        *current = value;
    }

    /// Reads precede writes, whatever the order of operands.
    fn instruction(&mut self, index: usize, block: BlockId) {
        let inst = &self.code.instructions[index];
        let (first, end) = inst.references;
        let is_guarded = inst.instruction.guard.is_some();
        let mut writes = false;
        for place in first..end {
            let reference = self.code.references[place as usize];
            let Some(register) = self.named(&reference) else {
                continue;
            };
            match reference.role {
                Role::Read | Role::Address | Role::Guard => {
                    let value = self.read(register);
                    self.code.references[place as usize].value = value;
                }
                Role::Write | Role::Unknown => writes = true,
            }
        }
        if !writes {
            return;
        }
        for place in first..end {
            let reference = self.code.references[place as usize];
            let (Some(register), Role::Write | Role::Unknown) =
                (self.named(&reference), reference.role)
            else {
                continue;
            };
            let may_keep = is_guarded || reference.role == Role::Unknown;
            let old = may_keep.then(|| self.read(register));
            let definition = Definition::Instruction {
                instruction: index as u32,
                reference: place,
                old,
            };
            let is_wide = matches!(reference.referent, Referent::Wide(_));
            let value = self.ssa.add(register, is_wide, block, definition);
            self.set(register, value);
            self.code.references[place as usize].value = value;
        }
    }

    /// The register of a reference that gets a value.
    fn named(&self, reference: &Reference) -> Option<Register> {
        match reference.referent {
            Referent::Wide(register) => Some(register),
            Referent::Other(register) => self.phis.has_others.then_some(register),
            Referent::Symbol(..) => None,
        }
    }

    /// Sets the arguments of the phis in the successors of a block.
    fn hand_on(&mut self, block: BlockId) {
        for &to in &self.cfg.blocks[block.0 as usize].successors {
            let predecessors = &self.cfg.blocks[to.0 as usize].predecessors;
            let Some(place) = predecessors.iter().position(|&from| from == block) else {
                continue;
            };
            for phi in phis_of(&self.ssa.ends_of_phis, to) {
                let value = self.read(self.phis.all[phi as usize].register);
                let definition = self.ssa.values[phi as usize].definition;
                if let Definition::Phi { first, .. } = definition {
                    self.ssa.arguments[first as usize + place] = value;
                }
            }
        }
    }
}

/// Makes the values of phis, still without arguments.
fn make_phis(ssa: &mut Ssa, cfg: &Cfg, phis: &Phis) {
    let mut all = phis.all.iter().peekable();
    for (number, block) in cfg.blocks.iter().enumerate() {
        let number = BlockId(number as u32);
        let predecessors = block.predecessors.len();
        while let Some(&Phi {
            register, is_wide, ..
        }) = all.next_if(|phi| phi.block == number)
        {
            let first = ssa.arguments.len();
            let end = first + predecessors;
            ssa.arguments.resize(end, ValueId::NONE);
            let definition = Definition::Phi {
                first: first as u32,
                end: end as u32,
            };
            ssa.add(register, is_wide, number, definition);
        }
        ssa.ends_of_phis.push(ssa.values.len() as u32);
    }
}
