//! Which definition of a register reaches a place: SSA form on demand, for
//! registers of all classes (see [`crate::Ssa`] for the 64-bit ones, which
//! provenance names one and all).

use crate::cfg::{BlockId, Cfg};
use crate::code::{Code, Mention};
use crate::dominators::{Dominators, Frontiers};
use crate::names::{Class, Register};
use crate::roles::{Role, Roles};
use ptx::VariableSpace;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

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
pub(crate) struct Registers {
    classes: Vec<Class>,
    writes: Vec<SmallVec<[Write; 1]>>,
    frontiers: Frontiers,
    phis: FxHashMap<Register, FxHashSet<BlockId>>,
    steps: usize,
}

/// Registers that a function may declare.
const MOST: u32 = 1 << 20;

impl Registers {
    /// Finds what writes each register of a function. `None` for functions
    /// with registers as parameters, and where the answer would take too long:
    /// for control flow that is too tangled, and too many registers.
    pub(crate) fn of(code: &Code<'_, '_>, cfg: &Cfg, dominators: &Dominators) -> Option<Self> {
        let function = code.function;
        let mut parameters = function.parameters.iter().chain(&function.returns);
        // A device function of old.
        let has_registers = parameters.any(|variable| variable.space == VariableSpace::Reg);
        if has_registers || code.declared > MOST {
            return None;
        }
        let mut registers = Registers {
            classes: vec![Class::Other; code.declared as usize],
            writes: vec![SmallVec::new(); code.declared as usize],
            frontiers: dominators.frontiers(cfg, 64 * code.instructions.len() + (1 << 16))?,
            phis: FxHashMap::default(),
            steps: 0,
        };
        for index in 0..code.instructions.len() {
            let mentions = code.mentions_of(index);
            for mention in mentions {
                registers.classes[mention.register.0 as usize] = mention.class;
            }
            if mentions.iter().any(|mention| mention.operand.is_some()) {
                registers.add_writes(index as u32, mentions, &code.roles(index));
            }
        }
        Some(registers)
    }

    fn add_writes(&mut self, instruction: u32, mentions: &[Mention<'_>], roles: &Roles<'_>) {
        for mention in mentions {
            let Some(operand) = mention.operand else {
                continue;
            };
            let unknown = match roles.operand(usize::from(operand)) {
                Role::Write => false,
                Role::Unknown => true,
                Role::Read | Role::Address => continue,
            };
            self.writes[mention.register.0 as usize].push(Write {
                instruction,
                operand,
                element: mention.element,
                unknown,
            });
        }
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
