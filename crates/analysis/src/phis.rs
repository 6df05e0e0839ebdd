//! The positions of phis: the joins where several definitions of a register
//! meet and the register is live (pruned SSA form).

use crate::cfg::{BlockId, Cfg};
use crate::code::{Code, Referent};
use crate::dominators::{Dominators, Frontiers};
use crate::names::Register;
use crate::roles::Role;

/// A phi that is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phi {
    pub(crate) block: BlockId,
    pub(crate) register: Register,
    /// The register may hold an address.
    pub(crate) is_wide: bool,
}

/// The phis of a function.
#[derive(Debug)]
pub(crate) struct Phis {
    /// By block; in each those of registers that may hold addresses first.
    pub(crate) all: Vec<Phi>,
    /// Those of registers that cannot hold addresses are among them.
    pub(crate) has_others: bool,
}

impl Phis {
    /// Places the phis. `None`: this takes too long. The registers that cannot
    /// hold addresses do not use up the time of the others.
    pub(crate) fn place(code: &Code<'_, '_>, cfg: &Cfg, dominators: &Dominators) -> Option<Phis> {
        let budget = BUDGET + 64 * code.instructions.len();
        if code.registers() as usize > budget {
            return None;
        }
        let mut places = Places::of(code, cfg);
        places.keep_what_may_join(dominators);
        let mut phis = Phis {
            all: Vec::new(),
            has_others: true,
        };
        if places.exposed.is_empty() {
            return Some(phis);
        }
        let mut placing = Placing {
            cfg,
            frontiers: dominators.frontiers(cfg, budget)?,
            live: vec![u32::MAX; cfg.blocks.len()],
            defines: vec![u32::MAX; cfg.blocks.len()],
            placed: vec![u32::MAX; cfg.blocks.len()],
            stack: Vec::new(),
            budget,
            phis: Vec::new(),
        };
        placing.all(&places, true)?;
        let wide = placing.phis.len();
        placing.budget = budget;
        if placing.all(&places, false).is_none() {
            placing.phis.truncate(wide);
            phis.has_others = false;
        }
        phis.all = placing.phis;
        phis.all.sort_by_key(|phi| phi.block);
        Some(phis)
    }
}

/// Steps that placing phis may take beyond 64 an instruction. Structured code
/// takes two or three.
const BUDGET: usize = 1 << 20;

const NONE: u32 = u32::MAX;

/// What is seen of a register, block by block.
#[derive(Clone, Copy)]
struct Seen {
    /// The first block that defines it.
    first: u32,
    /// The last one.
    last: u32,
    /// The last block that it is live into with a value.
    exposed: u32,
    /// It is defined more than once.
    is_multiple: bool,
    is_wide: bool,
    may_join: bool,
}

/// The blocks that define a register, and those that use its value from outside
/// the block.
struct Places {
    registers: Vec<Seen>,
    /// Blocks that define a register, but for the first.
    later: Vec<(Register, BlockId)>,
    exposed: Vec<(Register, BlockId)>,
}

impl Places {
    fn of(code: &Code<'_, '_>, cfg: &Cfg) -> Places {
        let unseen = Seen {
            first: NONE,
            last: NONE,
            exposed: NONE,
            is_multiple: false,
            is_wide: false,
            may_join: false,
        };
        let mut places = Places {
            registers: vec![unseen; code.registers() as usize],
            later: Vec::new(),
            exposed: Vec::new(),
        };
        for &block in &cfg.order {
            for index in cfg.instructions(block) {
                places.instruction(code, index, block);
            }
        }
        places
    }

    /// Reads precede writes, whatever the order of operands.
    fn instruction(&mut self, code: &Code<'_, '_>, index: usize, block: BlockId) {
        let is_guarded = code.instructions[index].instruction.guard.is_some();
        let references = code.references_of(index);
        for reference in references {
            if let Some(register) = reference.referent.register()
                && (reference.role != Role::Write || is_guarded)
            {
                self.read(register, block);
            }
        }
        for reference in references {
            if let Some(register) = reference.referent.register()
                && matches!(reference.role, Role::Write | Role::Unknown)
            {
                let is_wide = matches!(reference.referent, Referent::Wide(_));
                self.write(register, block, is_wide);
            }
        }
    }

    fn read(&mut self, register: Register, block: BlockId) {
        let seen = &mut self.registers[register.0 as usize];
        if seen.last != block.0 && seen.exposed != block.0 {
            seen.exposed = block.0;
            self.exposed.push((register, block));
        }
    }

    fn write(&mut self, register: Register, block: BlockId, is_wide: bool) {
        let seen = &mut self.registers[register.0 as usize];
        seen.is_wide = is_wide;
        if seen.first == NONE {
            seen.first = block.0;
        } else {
            seen.is_multiple = true;
            if seen.last != block.0 {
                self.later.push((register, block));
            }
        }
        seen.last = block.0;
    }

    /// Forgets registers that need no phi: what nothing defines, and what one
    /// instruction defines above all that reads it. Orders the others.
    fn keep_what_may_join(&mut self, dominators: &Dominators) {
        for &(register, block) in &self.exposed {
            let seen = &mut self.registers[register.0 as usize];
            let is_above =
                || seen.first != block.0 && dominators.dominates(BlockId(seen.first), block);
            seen.may_join |= seen.first != NONE && (seen.is_multiple || !is_above());
        }
        for list in [&mut self.exposed, &mut self.later] {
            list.retain(|(register, _)| self.registers[register.0 as usize].may_join);
            list.sort_by_key(|&(register, _)| register);
        }
    }
}

struct Placing<'x> {
    cfg: &'x Cfg,
    frontiers: Frontiers,
    /// For each block, the last register that was live there; that it
    /// defines; that got a phi there.
    live: Vec<u32>,
    defines: Vec<u32>,
    placed: Vec<u32>,
    stack: Vec<BlockId>,
    budget: usize,
    phis: Vec<Phi>,
}

impl Placing<'_> {
    /// Places the phis of all registers that may hold addresses, or of all
    /// that cannot. `None`: the budget ran out.
    fn all(&mut self, places: &Places, is_wide: bool) -> Option<()> {
        let mut later = &places.later[..];
        for exposed in places.exposed.chunk_by(|a, b| a.0 == b.0) {
            let register = exposed[0].0;
            let before = later.partition_point(|&(other, _)| other < register);
            let (own, rest) = later[before..]
                .split_at(later[before..].partition_point(|&(other, _)| other == register));
            later = rest;
            let seen = places.registers[register.0 as usize];
            if seen.is_wide != is_wide {
                continue;
            }
            let own = own.iter().map(|&(_, block)| block);
            let definitions = own.chain([BlockId(seen.first)]);
            for block in definitions.clone() {
                self.defines[block.0 as usize] = register.0;
            }
            self.spread(register, exposed)?;
            self.join(register, is_wide, definitions)?;
        }
        Some(())
    }

    /// Finds the blocks at whose head a register is live.
    fn spread(&mut self, register: Register, exposed: &[(Register, BlockId)]) -> Option<()> {
        self.stack.clear();
        for &(_, block) in exposed {
            self.live[block.0 as usize] = register.0;
            self.stack.push(block);
        }
        while let Some(block) = self.stack.pop() {
            self.budget = self.budget.checked_sub(1)?;
            for &predecessor in &self.cfg.blocks[block.0 as usize].predecessors {
                let at = predecessor.0 as usize;
                if self.live[at] != register.0
                    && self.defines[at] != register.0
                    && self.cfg.is_reachable(predecessor)
                {
                    self.live[at] = register.0;
                    self.stack.push(predecessor);
                }
            }
        }
        Some(())
    }

    fn join(
        &mut self,
        register: Register,
        is_wide: bool,
        definitions: impl Iterator<Item = BlockId>,
    ) -> Option<()> {
        self.frontiers.joins(definitions, |join| {
            self.budget = self.budget.checked_sub(1)?;
            let at = join.0 as usize;
            let is_new = self.placed[at] != register.0 && self.live[at] == register.0;
            if is_new {
                self.placed[at] = register.0;
                self.phis.push(Phi {
                    block: join,
                    register,
                    is_wide,
                });
            }
            Some(is_new)
        })
    }
}
