//! The allocations of one tenant: which parts of its memory are in use, and for
//! what. Pure data.

use std::collections::BTreeMap;

/// What allocations are multiples of, in bytes: what `cudaMalloc` guarantees for
/// textures, too.
pub(crate) const ALIGNMENT: u64 = 512;

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The tenant allocated it, and may free it.
    Allocation,
    /// The tenant has freed it, and work that may use it is not over.
    Leaving,
    /// A variable of a module.
    Variable,
    /// Stands for a constant variable of a module, which lies elsewhere: its
    /// addresses are names, and the memory is not used.
    Constant,
    /// What its modules have in common, and its program does not know of.
    Common,
}

/// A part of the memory that is in use.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Bytes that were asked for.
    size: u64,
    /// Bytes that it takes.
    taken: u64,
    usage: Use,
}

/// The memory of one tenant.
pub(crate) struct Memory {
    total: u64,
    free: u64,
    limit: usize,
    /// Free ranges by first byte; no two touch.
    gaps: BTreeMap<u64, u64>,
    /// By first byte.
    blocks: BTreeMap<u64, Block>,
}

impl Memory {
    /// All of `size` bytes from `base` on is free; at most `limit` blocks.
    pub(crate) fn new(base: u64, size: u64, limit: usize) -> Memory {
        Memory {
            total: size,
            free: size,
            limit,
            gaps: BTreeMap::from([(base, size)]),
            blocks: BTreeMap::new(),
        }
    }

    /// Bytes that are free, and all.
    pub(crate) fn info(&self) -> (u64, u64) {
        (self.free, self.total)
    }

    /// Takes memory at a multiple of `alignment`, a power of two; `None` if
    /// there is not as much, or there are too many blocks.
    pub(crate) fn take(&mut self, size: u64, alignment: u64, usage: Use) -> Option<u64> {
        let alignment = alignment.max(ALIGNMENT);
        let taken = size.max(1).checked_next_multiple_of(ALIGNMENT)?;
        if self.blocks.len() >= self.limit || !alignment.is_power_of_two() {
            return None;
        }
        let (gap, length, at) = self.gaps.iter().find_map(|(&gap, &length)| {
            let at = gap.checked_next_multiple_of(alignment)?;
            let end = at.checked_add(taken)?;
            (end <= gap + length).then_some((gap, length, at))
        })?;
        self.gaps.remove(&gap);
        if at > gap {
            self.gaps.insert(gap, at - gap);
        }
        let (end, gap_end) = (at + taken, gap + length);
        if gap_end > end {
            self.gaps.insert(end, gap_end - end);
        }
        self.free -= taken;
        self.blocks.insert(at, Block { size, taken, usage });
        Some(at)
    }

    /// Whether a block of this use begins there.
    pub(crate) fn is_block(&self, address: u64, usage: Use) -> bool {
        self.blocks
            .get(&address)
            .is_some_and(|block| block.usage == usage)
    }

    /// The tenant has freed a block, which is not given back yet.
    pub(crate) fn leave(&mut self, address: u64) {
        if let Some(block) = self.blocks.get_mut(&address) {
            block.usage = Use::Leaving;
        }
    }

    /// Gives a block back, if one begins there.
    pub(crate) fn give_back(&mut self, address: u64) {
        let Some(block) = self.blocks.remove(&address) else {
            return;
        };
        self.free += block.taken;
        let (mut start, mut end) = (address, address + block.taken);
        if let Some((&before, &length)) = self.gaps.range(..address).next_back()
            && before + length == start
        {
            self.gaps.remove(&before);
            start = before;
        }
        if let Some(length) = self.gaps.remove(&end) {
            end += length;
        }
        self.gaps.insert(start, end - start);
    }

    /// What `address .. address + size` is used for, if it lies in one block, and
    /// the first byte of that.
    pub(crate) fn around(&self, address: u64, size: u64) -> Option<(u64, Use)> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        let end = address.checked_add(size)?;
        (end <= start + block.size).then_some((*start, block.usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 3 << 32;

    #[test]
    fn only_what_lies_in_one_block_is_held() {
        let mut memory = Memory::new(BASE, 1 << 20, 8);
        let a = memory.take(100, 1, Use::Allocation).unwrap();
        let b = memory.take(100, 1, Use::Allocation).unwrap();
        assert_eq!((a, b), (BASE, BASE + 512));
        let holds = |memory: &Memory, at, size| memory.around(at, size).is_some();
        assert!(holds(&memory, a, 100) && holds(&memory, a + 99, 1) && holds(&memory, a, 0));
        assert!(
            !holds(&memory, a, 101),
            "what it takes is more than what it is"
        );
        assert!(!holds(&memory, a + 99, 2));
        assert!(
            !holds(&memory, a, 612),
            "two blocks are no memory in one piece"
        );
        assert!(!holds(&memory, BASE - 1, 1) && !holds(&memory, u64::MAX, 2));
        assert_eq!(memory.around(b + 7, 3), Some((b, Use::Allocation)));
        memory.give_back(a);
        assert!(!holds(&memory, a, 1));
        assert!(!memory.is_block(b, Use::Variable) && memory.is_block(b, Use::Allocation));
    }

    proptest! {
        /// Against a list of blocks: none overlap, all lie inside, and what is
        /// given back can be taken again, in one piece in the end.
        #[test]
        fn blocks_do_not_overlap(steps in prop::collection::vec((0u64..5000, 0u32..13, any::<bool>()), 1..200)) {
            let size = 64 << 10;
            let mut memory = Memory::new(BASE, size, 50);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (bytes, shift, frees) in steps {
                if frees && !live.is_empty() {
                    let (at, _) = live.swap_remove(bytes as usize % live.len());
                    prop_assert!(memory.is_block(at, Use::Allocation));
                    memory.give_back(at);
                } else if let Some(at) = memory.take(bytes, 1 << shift, Use::Allocation) {
                    prop_assert!(at % (1 << shift) == 0 && at % ALIGNMENT == 0);
                    prop_assert!(at >= BASE && at + bytes <= BASE + size);
                    for (other, length) in &live {
                        prop_assert!(at + bytes.max(1) <= *other || other + length.max(&1) <= at);
                    }
                    live.push((at, bytes));
                }
                prop_assert!(live.len() <= 50);
            }
            for (at, _) in live {
                memory.give_back(at);
            }
            prop_assert_eq!(memory.info(), (size, size));
            prop_assert_eq!(memory.take(size, 1, Use::Allocation), Some(BASE));
        }
    }
}
