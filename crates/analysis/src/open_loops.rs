//! Loops that may go round for as long as memory holds something: a thread that
//! reads the wrong values there may never leave them.
//!
//! A loop is *closed* if an exit that every iteration comes to depends on values
//! that memory does not change while the loop runs: counters with steps and limits
//! that are made outside, or computed. All others are open.

use crate::cfg::{BlockId, Cfg};
use crate::code::{Reference, Referent, ValueId};
use crate::dominators::Dominators;
use crate::function::Analysis;
use crate::loops::{Loop, Loops};
use crate::names::SymbolSpace;
use crate::roles::Role;
use crate::ssa::Definition;
use ptx::{Mnemonic, Modifier};
use rustc_hash::FxHashSet;

/// The first instruction of the head of each open loop, in ascending order. Every
/// cycle of the control flow that is no closed loop goes through one of them.
pub fn open_loops(analysis: &Analysis<'_, '_>) -> Vec<u32> {
    let (cfg, dominators) = (&analysis.cfg, &analysis.dominators);
    let mut heads = other_cycles(cfg, dominators);
    let loops = Loops::of(cfg, dominators);
    let open = loops.loops.iter().filter(|natural| {
        let in_loop = InLoop {
            analysis,
            natural,
            latches: latches(cfg, dominators, natural.header),
        };
        !in_loop.is_closed()
    });
    heads.extend(open.map(|natural| natural.header));
    let first = |block: &BlockId| cfg.blocks[block.0 as usize].first;
    let mut heads: Vec<u32> = heads.iter().map(first).collect();
    heads.sort_unstable();
    heads.dedup();
    heads
}

/// The blocks of a loop from which it goes round.
fn latches(cfg: &Cfg, dominators: &Dominators, head: BlockId) -> Vec<BlockId> {
    let predecessors = cfg.blocks[head.0 as usize].predecessors.iter().copied();
    predecessors
        .filter(|&from| cfg.is_reachable(from) && dominators.dominates(head, from))
        .collect()
}

/// Blocks that cycles with several ways in go through.
fn other_cycles(cfg: &Cfg, dominators: &Dominators) -> Vec<BlockId> {
    let place = |block: BlockId| cfg.position[block.0 as usize];
    let mut found = Vec::new();
    for &from in &cfg.order {
        for &to in &cfg.blocks[from.0 as usize].successors {
            if place(to) <= place(from) && !dominators.dominates(to, from) {
                found.push(to);
            }
        }
    }
    found
}

/// A loop, and what its exits depend on.
struct InLoop<'x, 'm, 'a> {
    analysis: &'x Analysis<'m, 'a>,
    natural: &'x Loop,
    latches: Vec<BlockId>,
}

impl InLoop<'_, '_, '_> {
    fn is_closed(&self) -> bool {
        let mut blocks = self.natural.blocks.iter();
        blocks.any(|&block| self.exit(block).is_some_and(|index| self.is_fixed(index)))
    }

    /// The instruction of a block that decides whether threads leave, if all come to it.
    fn exit(&self, block: BlockId) -> Option<usize> {
        let (cfg, dominators) = (&self.analysis.cfg, &self.analysis.dominators);
        let mut latches = self.latches.iter();
        if !latches.all(|&latch| dominators.dominates(block, latch)) {
            return None;
        }
        let last = cfg.instructions(block).last()?;
        let successors = &cfg.blocks[block.0 as usize].successors;
        let leaves = successors.iter().any(|to| !self.is_inside(*to));
        let instructions = &self.analysis.code.instructions;
        let is_last = last + 1 == instructions.len();
        let instruction = instructions[last].instruction;
        let decides = match instruction.opcode.mnemonic() {
            Mnemonic::Bra => instruction.guard.is_some() && (leaves || is_last),
            Mnemonic::Brx => leaves,
            // (An edge that the graph does not have, like that out of the body.)
            Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap => instruction.guard.is_some(),
            _ => false,
        };
        decides.then_some(last)
    }

    fn is_inside(&self, block: BlockId) -> bool {
        self.natural.blocks.binary_search(&block).is_ok()
    }

    /// Whether memory changes nothing, while the loop goes round, that an instruction
    /// reads.
    fn is_fixed(&self, exit: usize) -> bool {
        let ssa = &self.analysis.ssa;
        let mut waiting = Vec::new();
        let mut seen = FxHashSet::default();
        if !self.reads(exit, &mut waiting) {
            return false;
        }
        while let Some(value) = waiting.pop() {
            // (It is not known where the function is not in SSA form.)
            let Some(known) = ssa.value(value) else {
                return false;
            };
            if !self.is_inside(known.block) || !seen.insert(value) {
                continue;
            }
            let is_followed = match known.definition {
                Definition::Undefined => true,
                Definition::Phi { .. } => self.carries(value, known.block, &mut waiting),
                Definition::Instruction {
                    instruction, old, ..
                } => {
                    waiting.extend(old);
                    !self.is_from_memory(instruction as usize)
                        && self.reads(instruction as usize, &mut waiting)
                }
            };
            if !is_followed {
                return false;
            }
        }
        true
    }

    /// Adds the registers that an instruction reads; whether they are known.
    fn reads(&self, index: usize, waiting: &mut Vec<ValueId>) -> bool {
        let references = self.analysis.code.references_of(index);
        let registers = references
            .iter()
            .filter(|r| r.referent.register().is_some());
        for reference in registers {
            match reference.role {
                Role::Write => {}
                Role::Read | Role::Address | Role::Guard => waiting.push(reference.value),
                Role::Unknown => return false,
            }
        }
        true
    }

    /// Adds the value that the head carries round, if it is always the same one. (Which
    /// of several it is, there or at another join, something else has decided.)
    fn carries(&self, phi: ValueId, block: BlockId, waiting: &mut Vec<ValueId>) -> bool {
        let analysis = self.analysis;
        let argument = |&latch: &BlockId| analysis.ssa.phi_argument(&analysis.cfg, phi, latch);
        let mut arguments: Vec<Option<ValueId>> = self.latches.iter().map(argument).collect();
        arguments.dedup();
        match arguments[..] {
            [Some(argument)] if block == self.natural.header => {
                waiting.push(argument);
                true
            }
            _ => false,
        }
    }

    /// Whether an instruction has its result from memory, or from a function.
    fn is_from_memory(&self, index: usize) -> bool {
        let code = &self.analysis.code;
        let instruction = code.instructions[index].instruction;
        let is_parameter = |reference: &Reference| match reference.referent {
            Referent::Symbol(symbol, _) => matches!(
                code.symbols[symbol.0 as usize].space,
                SymbolSpace::EntryParameter { .. } | SymbolSpace::Argument { .. }
            ),
            _ => false,
        };
        match instruction.opcode.mnemonic() {
            Mnemonic::Ld if instruction.opcode.has(Modifier::Param) => {
                !code.references_of(index).iter().any(is_parameter)
            }
            Mnemonic::Call => true,
            _ => instruction.addresses().next().is_some(),
        }
    }
}
