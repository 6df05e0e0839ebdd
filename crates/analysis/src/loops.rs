//! Natural loops: a header and the blocks that reach it again without
//! leaving its dominance.

use crate::cfg::{BlockId, Cfg};
use crate::dominators::Dominators;

/// One natural loop. Loops that share a header are one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The only way in.
    pub header: BlockId,
    /// Its blocks, header included, in ascending order.
    pub blocks: Vec<BlockId>,
    /// Index of the loop around it.
    pub parent: Option<usize>,
    /// 1 for an outermost loop.
    pub depth: u32,
}

/// The natural loops of a function, outer ones first.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    /// The loops.
    pub loops: Vec<Loop>,
    innermost: Vec<Option<usize>>,
}

impl Loops {
    /// Finds the loops. Cycles with several ways in are not natural loops and
    /// are not listed.
    pub fn of(cfg: &Cfg, dominators: &Dominators) -> Loops {
        let mut loops: Vec<Loop> = Vec::new();
        let mut mark = vec![u32::MAX; cfg.blocks.len()];
        for &header in &cfg.order {
            let mut stack: Vec<BlockId> = cfg.blocks[header.0 as usize]
                .predecessors
                .iter()
                .copied()
                .filter(|&latch| dominators.dominates(header, latch))
                .collect();
            if stack.is_empty() {
                continue;
            }
            mark[header.0 as usize] = header.0;
            let mut blocks = vec![header];
            while let Some(block) = stack.pop() {
                if mark[block.0 as usize] == header.0 || !cfg.is_reachable(block) {
                    continue;
                }
                mark[block.0 as usize] = header.0;
                blocks.push(block);
                stack.extend(cfg.blocks[block.0 as usize].predecessors.iter().copied());
            }
            blocks.sort_unstable();
            loops.push(Loop {
                header,
                blocks,
                parent: None,
                depth: 1,
            });
        }
        loops.sort_by_key(|l| std::cmp::Reverse(l.blocks.len()));
        let mut innermost: Vec<Option<usize>> = vec![None; cfg.blocks.len()];
        for index in 0..loops.len() {
            let parent = innermost[loops[index].header.0 as usize];
            loops[index].parent = parent;
            loops[index].depth = parent.map_or(1, |p| loops[p].depth + 1);
            for block in &loops[index].blocks {
                innermost[block.0 as usize] = Some(index);
            }
        }
        Loops { loops, innermost }
    }

    /// The innermost loop that holds `block`.
    pub fn innermost(&self, block: BlockId) -> Option<&Loop> {
        self.loops.get((*self.innermost.get(block.0 as usize)?)?)
    }
}
