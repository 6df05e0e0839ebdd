//! Values of 64-bit registers: pruned SSA form beside the text, which is
//! never rewritten.
//!
//! A predicated definition makes a new value that may be the old one: it
//! remembers both ([`Definition::Instruction::old`]).

use crate::cfg::{BlockId, Cfg};
use crate::code::{Code, Reference, Referent, ValueId};
use crate::dominators::Dominators;
use crate::names::WideReg;
use crate::roles::Role;

/// Where a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Read before any definition.
    Undefined,
    /// At the head of a block, from its predecessors; arguments are
    /// [`Ssa::phi_arguments`], in the order of [`crate::BasicBlock::predecessors`].
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
    pub register: WideReg,
    /// Block where it is made.
    pub block: BlockId,
    /// How it is made.
    pub definition: Definition,
}

/// All values of a function.
#[derive(Clone, Debug, Default)]
pub struct Ssa {
    /// Values; those made by instructions come in dominator-tree preorder.
    pub values: Vec<Value>,
    arguments: Vec<ValueId>,
}

impl Ssa {
    /// Gives every reference to a 64-bit register in `code` its value. Where
    /// control flow is so tangled that this would take time quadratic in the
    /// size of the function, no reference gets one, as if nothing could be
    /// reached.
    pub fn of(code: &mut Code<'_, '_>, cfg: &Cfg, dominators: &Dominators) -> Ssa {
        match place_phis(code, cfg, dominators) {
            Some(phis) => rename(code, cfg, dominators, &phis),
            None => Ssa::default(),
        }
    }

    /// The arguments of a phi.
    pub fn phi_arguments(&self, value: ValueId) -> &[ValueId] {
        match self
            .values
            .get(value.0 as usize)
            .map(|value| value.definition)
        {
            Some(Definition::Phi { first, end }) => &self.arguments[first as usize..end as usize],
            _ => &[],
        }
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

    /// The value with that number.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.0 as usize)
    }
}

/// Where a register is defined and where its value must come from outside
/// the block.
#[derive(Clone, Default)]
struct Places {
    definitions: Vec<u32>,
    exposed: Vec<u32>,
}

/// Steps that placing phis may take beyond 64 an instruction. Structured code
/// takes two or three.
const BUDGET: usize = 1 << 20;

/// Registers that need a phi at each block; `None` if the budget ran out.
fn place_phis(
    code: &Code<'_, '_>,
    cfg: &Cfg,
    dominators: &Dominators,
) -> Option<Vec<Vec<WideReg>>> {
    let registers = code.registers as usize;
    let mut places: Vec<Places> = vec![Places::default(); registers];
    let mut defined_in = vec![u32::MAX; registers];
    let mut multiple = vec![false; registers];
    for &block in &cfg.order {
        let BlockRange { first, end } = range(cfg, block);
        for index in first..end {
            let guarded = code.instructions[index].instruction.guard.is_some();
            let references = code.references_of(index);
            for pass_writes in [false, true] {
                for reference in references {
                    let Referent::Wide(register) = reference.referent else {
                        continue;
                    };
                    let writes = matches!(reference.role, Role::Write | Role::Unknown);
                    if writes != pass_writes {
                        continue;
                    }
                    let register = register.0 as usize;
                    let reads = !writes || guarded || reference.role == Role::Unknown;
                    if reads
                        && defined_in[register] != block.0
                        && places[register].exposed.last() != Some(&block.0)
                    {
                        places[register].exposed.push(block.0);
                    }
                    if writes {
                        multiple[register] |= !places[register].definitions.is_empty();
                        if defined_in[register] != block.0 {
                            defined_in[register] = block.0;
                            places[register].definitions.push(block.0);
                        }
                    }
                }
            }
        }
    }
    let mut budget = BUDGET + 64 * code.instructions.len();
    let frontiers = dominators.frontiers(cfg, budget)?;
    let mut phis: Vec<Vec<WideReg>> = vec![Vec::new(); cfg.blocks.len()];
    let mut live = vec![u32::MAX; cfg.blocks.len()];
    let mut defines = vec![u32::MAX; cfg.blocks.len()];
    let mut placed = vec![u32::MAX; cfg.blocks.len()];
    let mut stack = Vec::new();
    for (register, place) in places.iter().enumerate() {
        if place.exposed.is_empty() || place.definitions.is_empty() {
            continue;
        }
        let number = register as u32;
        if !multiple[register] {
            let definition = BlockId(place.definitions[0]);
            let strictly = |&block: &u32| {
                block != definition.0 && dominators.dominates(definition, BlockId(block))
            };
            if place.exposed.iter().all(strictly) {
                continue;
            }
        }
        for &block in &place.definitions {
            defines[block as usize] = number;
        }
        // Blocks at whose head the register is live.
        stack.clear();
        stack.extend(place.exposed.iter().copied());
        for &block in &place.exposed {
            live[block as usize] = number;
        }
        while let Some(block) = stack.pop() {
            budget = budget.checked_sub(1)?;
            for &predecessor in &cfg.blocks[block as usize].predecessors {
                let at = predecessor.0 as usize;
                if live[at] != number && defines[at] != number && cfg.is_reachable(predecessor) {
                    live[at] = number;
                    stack.push(predecessor.0);
                }
            }
        }
        let definitions = place.definitions.iter().map(|&block| BlockId(block));
        frontiers.joins(definitions, |join| {
            let at = join.0 as usize;
            budget = budget.checked_sub(1)?;
            let is_new = placed[at] != number && live[at] == number;
            if is_new {
                placed[at] = number;
                phis[at].push(WideReg(number));
            }
            Some(is_new)
        })?;
    }
    Some(phis)
}

struct BlockRange {
    first: usize,
    end: usize,
}

fn range(cfg: &Cfg, block: BlockId) -> BlockRange {
    let block = &cfg.blocks[block.0 as usize];
    BlockRange {
        first: block.first as usize,
        end: block.end as usize,
    }
}

/// Walks the dominator tree and names the values.
fn rename(
    code: &mut Code<'_, '_>,
    cfg: &Cfg,
    dominators: &Dominators,
    phis: &[Vec<WideReg>],
) -> Ssa {
    let mut ssa = Ssa::default();
    let mut phi_values: Vec<Vec<ValueId>> = vec![Vec::new(); cfg.blocks.len()];
    for (block, registers) in phis.iter().enumerate() {
        for &register in registers {
            let first = ssa.arguments.len() as u32;
            let count = cfg.blocks[block].predecessors.len();
            ssa.arguments
                .resize(ssa.arguments.len() + count, ValueId::NONE);
            phi_values[block].push(ValueId(ssa.values.len() as u32));
            ssa.values.push(Value {
                register,
                block: BlockId(block as u32),
                definition: Definition::Phi {
                    first,
                    end: ssa.arguments.len() as u32,
                },
            });
        }
    }
    let mut current = vec![ValueId::NONE; code.registers as usize];
    let mut undo: Vec<(u32, ValueId)> = Vec::new();
    let Some(&entry) = cfg.order.first() else {
        return ssa;
    };
    let mut stack: Vec<(BlockId, usize, usize)> = Vec::new();
    let enter = |block: BlockId,
                 code: &mut Code<'_, '_>,
                 ssa: &mut Ssa,
                 current: &mut Vec<ValueId>,
                 undo: &mut Vec<(u32, ValueId)>| {
        let at = block.0 as usize;
        for (&register, &value) in phis[at].iter().zip(&phi_values[at]) {
            undo.push((register.0, current[register.0 as usize]));
            current[register.0 as usize] = value;
        }
        let BlockRange { first, end } = range(cfg, block);
        for index in first..end {
            name_instruction(code, index, block, entry, ssa, current, undo);
        }
        for &successor in &cfg.blocks[at].successors {
            let to = successor.0 as usize;
            for (&register, &phi) in phis[to].iter().zip(&phi_values[to]) {
                let value = read(register, entry, ssa, current, undo, false);
                let Definition::Phi { first, .. } = ssa.values[phi.0 as usize].definition else {
                    continue;
                };
                for (place, &predecessor) in cfg.blocks[to].predecessors.iter().enumerate() {
                    if predecessor == block {
                        ssa.arguments[first as usize + place] = value;
                    }
                }
            }
        }
    };
    let mark = undo.len();
    enter(entry, code, &mut ssa, &mut current, &mut undo);
    stack.push((entry, 0, mark));
    while let Some((block, next, mark)) = stack.last_mut() {
        match dominators.children(*block).get(*next) {
            Some(&child) => {
                *next += 1;
                let mark = undo.len();
                enter(child, code, &mut ssa, &mut current, &mut undo);
                stack.push((child, 0, mark));
            }
            None => {
                while undo.len() > *mark {
                    if let Some((register, old)) = undo.pop() {
                        current[register as usize] = old;
                    }
                }
                stack.pop();
            }
        }
    }
    ssa
}

/// The current value of a register; an undefined one is made on demand.
fn read(
    register: WideReg,
    entry: BlockId,
    ssa: &mut Ssa,
    current: &mut [ValueId],
    undo: &mut Vec<(u32, ValueId)>,
    keep: bool,
) -> ValueId {
    let at = register.0 as usize;
    if current[at] != ValueId::NONE {
        return current[at];
    }
    let value = ValueId(ssa.values.len() as u32);
    ssa.values.push(Value {
        register,
        block: entry,
        definition: Definition::Undefined,
    });
    if keep {
        undo.push((register.0, ValueId::NONE));
        current[at] = value;
    }
    value
}

fn name_instruction(
    code: &mut Code<'_, '_>,
    index: usize,
    block: BlockId,
    entry: BlockId,
    ssa: &mut Ssa,
    current: &mut [ValueId],
    undo: &mut Vec<(u32, ValueId)>,
) {
    let (first, end) = code.instructions[index].references;
    let guarded = code.instructions[index].instruction.guard.is_some();
    for reference in &mut code.references[first as usize..end as usize] {
        if let (Referent::Wide(register), Role::Read | Role::Address) =
            (reference.referent, reference.role)
        {
            reference.value = read(register, entry, ssa, current, undo, true);
        }
    }
    for place in first..end {
        let reference = code.references[place as usize];
        let (Referent::Wide(register), Role::Write | Role::Unknown) =
            (reference.referent, reference.role)
        else {
            continue;
        };
        let may_keep = guarded || reference.role == Role::Unknown;
        let old = may_keep.then(|| read(register, entry, ssa, current, undo, true));
        let value = ValueId(ssa.values.len() as u32);
        ssa.values.push(Value {
            register,
            block,
            definition: Definition::Instruction {
                instruction: index as u32,
                reference: place,
                old,
            },
        });
        undo.push((register.0, current[register.0 as usize]));
        current[register.0 as usize] = value;
        code.references[place as usize].value = value;
    }
}
