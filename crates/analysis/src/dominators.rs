//! Dominator tree and dominance frontiers (Cooper, Harvey and Kennedy, "A
//! Simple, Fast Dominance Algorithm", 2001).

use crate::cfg::{BlockId, Cfg};
use smallvec::SmallVec;

/// The dominator tree of the reachable blocks.
#[derive(Clone, Debug)]
pub struct Dominators {
    idom: Vec<u32>,
    /// Preorder and last-descendant numbers in the dominator tree.
    span: Vec<(u32, u32)>,
    /// Children in the dominator tree.
    children: Vec<SmallVec<[BlockId; 2]>>,
}

const NONE: u32 = u32::MAX;

impl Dominators {
    /// Computes the tree.
    pub fn of(cfg: &Cfg) -> Dominators {
        let count = cfg.blocks.len();
        let mut idom = vec![NONE; count];
        let Some(&entry) = cfg.order.first() else {
            return Dominators {
                idom,
                span: Vec::new(),
                children: Vec::new(),
            };
        };
        idom[entry.0 as usize] = entry.0;
        let mut changed = true;
        while changed {
            changed = false;
            for &block in &cfg.order[1..] {
                let mut new = NONE;
                for &predecessor in &cfg.blocks[block.0 as usize].predecessors {
                    if idom[predecessor.0 as usize] == NONE {
                        continue;
                    }
                    new = match new {
                        NONE => predecessor.0,
                        other => intersect(&idom, &cfg.position, other, predecessor.0),
                    };
                }
                if idom[block.0 as usize] != new {
                    idom[block.0 as usize] = new;
                    changed = true;
                }
            }
        }
        let mut children: Vec<SmallVec<[BlockId; 2]>> = vec![SmallVec::new(); count];
        for &block in &cfg.order[1..] {
            children[idom[block.0 as usize] as usize].push(block);
        }
        let mut span = vec![(NONE, 0); count];
        let mut clock = 0;
        let mut stack = vec![(entry.0 as usize, 0usize)];
        span[entry.0 as usize].0 = 0;
        while let Some((block, next)) = stack.last_mut() {
            match children[*block].get(*next) {
                Some(&child) => {
                    *next += 1;
                    clock += 1;
                    span[child.0 as usize].0 = clock;
                    stack.push((child.0 as usize, 0));
                }
                None => {
                    span[*block].1 = clock;
                    stack.pop();
                }
            }
        }
        idom[entry.0 as usize] = NONE;
        Dominators {
            idom,
            span,
            children,
        }
    }

    /// The immediate dominator; `None` for the entry and unreachable blocks.
    pub fn immediate(&self, block: BlockId) -> Option<BlockId> {
        let idom = *self.idom.get(block.0 as usize)?;
        (idom != NONE).then_some(BlockId(idom))
    }

    /// Whether every path from the entry to `below` goes through `above`. A
    /// block dominates itself. Unreachable blocks dominate nothing and are
    /// dominated by nothing.
    pub fn dominates(&self, above: BlockId, below: BlockId) -> bool {
        let (Some(&(first, last)), Some(&(at, _))) = (
            self.span.get(above.0 as usize),
            self.span.get(below.0 as usize),
        ) else {
            return false;
        };
        first != NONE && at != NONE && first <= at && at <= last
    }

    /// Blocks that `block` dominates immediately.
    pub fn children(&self, block: BlockId) -> &[BlockId] {
        &self.children[block.0 as usize]
    }

    /// For each block, the joins where its dominance ends; `None` if they are
    /// more than `budget` in all (they can be quadratic in number).
    pub fn frontiers(&self, cfg: &Cfg, budget: usize) -> Option<Frontiers> {
        let mut frontiers: Vec<SmallVec<[BlockId; 2]>> = vec![SmallVec::new(); cfg.blocks.len()];
        let mut steps = 0;
        for &block in &cfg.order {
            let predecessors = &cfg.blocks[block.0 as usize].predecessors;
            let is_join =
                predecessors.len() > 1 || (block == cfg.order[0] && !predecessors.is_empty());
            if !is_join {
                continue;
            }
            let stop = self.immediate(block);
            for &predecessor in predecessors {
                let mut runner = Some(predecessor).filter(|&p| cfg.is_reachable(p));
                while let Some(at) = runner
                    && Some(at) != stop
                {
                    steps += 1;
                    if steps > budget {
                        return None;
                    }
                    let frontier = &mut frontiers[at.0 as usize];
                    if frontier.last() != Some(&block) {
                        frontier.push(block);
                    }
                    runner = self.immediate(at);
                }
            }
        }
        Some(Frontiers(frontiers))
    }
}

/// For each block, the joins where its dominance ends.
#[derive(Clone, Debug)]
pub struct Frontiers(Vec<SmallVec<[BlockId; 2]>>);

impl Frontiers {
    /// The joins at which definitions in these blocks meet others, and so the
    /// phis there, which are definitions again. `place` is asked about each
    /// join, perhaps more than once, and answers whether a phi was placed that
    /// was not there; `None` ends the search.
    pub fn joins(
        &self,
        definitions: impl IntoIterator<Item = BlockId>,
        mut place: impl FnMut(BlockId) -> Option<bool>,
    ) -> Option<()> {
        let mut stack: SmallVec<[BlockId; 8]> = definitions.into_iter().collect();
        while let Some(block) = stack.pop() {
            for &join in &self.0[block.0 as usize] {
                if place(join)? {
                    stack.push(join);
                }
            }
        }
        Some(())
    }
}

fn intersect(idom: &[u32], position: &[u32], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        while position[a as usize] > position[b as usize] {
            a = idom[a as usize];
        }
        while position[b as usize] > position[a as usize] {
            b = idom[b as usize];
        }
    }
    a
}
