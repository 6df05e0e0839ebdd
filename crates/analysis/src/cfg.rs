//! Control flow of a flat body: basic blocks and their edges.
//!
//! Calls fall through. `brx.idx` goes to the labels of its `.branchtargets`;
//! a branch whose target cannot be found may go to any label.

use crate::code::Code;
use ptx::{Mnemonic, OperandKind};
use smallvec::SmallVec;
use std::ops::Range;

/// Number of a basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// Instructions that execute one after the other.
#[derive(Clone, Debug)]
pub struct BasicBlock {
    /// First instruction.
    pub first: u32,
    /// One past the last.
    pub end: u32,
    /// Blocks that may follow.
    pub successors: SmallVec<[BlockId; 2]>,
    /// Blocks that it may follow.
    pub predecessors: SmallVec<[BlockId; 2]>,
}

/// The control-flow graph of a function.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// Blocks in text order; block 0 is the entry.
    pub blocks: Vec<BasicBlock>,
    /// Reachable blocks in reverse postorder.
    pub order: Vec<BlockId>,
    /// Place of each block in `order`; `u32::MAX` if it is unreachable.
    pub position: Vec<u32>,
    /// The block of each instruction.
    pub block_of: Vec<BlockId>,
}

impl Cfg {
    /// Builds the graph.
    pub fn of(code: &Code<'_, '_>) -> Cfg {
        let count = code.instructions.len();
        let mut starts = vec![false; count + 1];
        starts[0] = true;
        for &label in &code.label_targets {
            starts[label as usize] = true;
        }
        for (index, inst) in code.instructions.iter().enumerate() {
            if ends_block(inst.instruction.opcode.mnemonic()) {
                starts[index + 1] = true;
            }
        }
        let mut blocks = Vec::new();
        let mut block_of = Vec::with_capacity(count);
        // A label after the last instruction makes an empty last block.
        let ends_with_label = code
            .label_targets
            .last()
            .is_some_and(|&label| label as usize == count);
        for (index, &starts_here) in starts
            .iter()
            .enumerate()
            .take(count + usize::from(ends_with_label || count == 0))
        {
            if starts_here {
                blocks.push(BasicBlock {
                    first: index as u32,
                    end: index as u32,
                    successors: SmallVec::new(),
                    predecessors: SmallVec::new(),
                });
            }
            if index < count {
                block_of.push(BlockId(blocks.len() as u32 - 1));
                if let Some(block) = blocks.last_mut() {
                    block.end = index as u32 + 1;
                }
            }
        }
        let block_at = |instruction: u32| -> Option<BlockId> {
            match block_of.get(instruction as usize) {
                Some(&block) => Some(block),
                None if ends_with_label => Some(BlockId(blocks.len() as u32 - 1)),
                None => None,
            }
        };
        let mut edges: Vec<SmallVec<[BlockId; 2]>> = Vec::with_capacity(blocks.len());
        for (number, block) in blocks.iter().enumerate() {
            let mut successors = SmallVec::new();
            let mut falls_through = true;
            if block.end > block.first {
                let last = block.end as usize - 1;
                falls_through = targets(code, last, &block_at, &mut successors);
            }
            if falls_through && number + 1 < blocks.len() {
                successors.push(BlockId(number as u32 + 1));
            }
            successors.sort_unstable();
            successors.dedup();
            edges.push(successors);
        }
        for (number, successors) in edges.into_iter().enumerate() {
            for &successor in &successors {
                blocks[successor.0 as usize]
                    .predecessors
                    .push(BlockId(number as u32));
            }
            blocks[number].successors = successors;
        }
        let order = reverse_postorder(&blocks);
        let mut position = vec![u32::MAX; blocks.len()];
        for (place, block) in order.iter().enumerate() {
            position[block.0 as usize] = place as u32;
        }
        Cfg {
            blocks,
            order,
            position,
            block_of,
        }
    }

    /// The instructions of a block.
    pub fn instructions(&self, block: BlockId) -> Range<usize> {
        let block = &self.blocks[block.0 as usize];
        block.first as usize..block.end as usize
    }

    /// Whether control can get to `block`.
    pub fn is_reachable(&self, block: BlockId) -> bool {
        self.position[block.0 as usize] != u32::MAX
    }
}

/// Whether an instruction ends a block. (A `call` returns or ends the thread:
/// it does not end a block, but see the users of blocks.)
fn ends_block(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Bra | Mnemonic::Brx | Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap
    )
}

/// Pushes where instruction `index` may branch to; answers whether it may
/// also fall through.
fn targets(
    code: &Code<'_, '_>,
    index: usize,
    block_at: &dyn Fn(u32) -> Option<BlockId>,
    out: &mut SmallVec<[BlockId; 2]>,
) -> bool {
    let instruction = code.instructions[index].instruction;
    let guarded = instruction.guard.is_some();
    let anywhere = |out: &mut SmallVec<[BlockId; 2]>| {
        out.extend(
            code.label_targets
                .iter()
                .filter_map(|&label| block_at(label)),
        );
    };
    match instruction.opcode.mnemonic() {
        Mnemonic::Bra => {
            let target = match instruction.operands.first().map(|operand| &operand.kind) {
                Some(OperandKind::Name(name)) => code.label(index, name).and_then(block_at),
                _ => None,
            };
            match target {
                Some(block) => out.push(block),
                None => anywhere(out),
            }
            guarded
        }
        Mnemonic::Brx => {
            let list = instruction
                .operands
                .iter()
                .rev()
                .find_map(|operand| match &operand.kind {
                    OperandKind::Name(name) => code.branch_targets(index, name),
                    _ => None,
                });
            let found: Option<SmallVec<[BlockId; 2]>> = list.and_then(|names| {
                names
                    .iter()
                    .map(|name| code.label(index, name).and_then(block_at))
                    .collect()
            });
            match found {
                Some(blocks) => out.extend(blocks),
                None => anywhere(out),
            }
            guarded
        }
        Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap => guarded,
        _ => true,
    }
}

fn reverse_postorder(blocks: &[BasicBlock]) -> Vec<BlockId> {
    let mut order = Vec::with_capacity(blocks.len());
    let mut seen = vec![false; blocks.len()];
    let mut stack = Vec::new();
    if !blocks.is_empty() {
        seen[0] = true;
        stack.push((0usize, 0usize));
    }
    while let Some((block, next)) = stack.last_mut() {
        match blocks[*block].successors.get(*next) {
            Some(&successor) => {
                *next += 1;
                let successor = successor.0 as usize;
                if !seen[successor] {
                    seen[successor] = true;
                    stack.push((successor, 0));
                }
            }
            None => {
                order.push(BlockId(*block as u32));
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}
