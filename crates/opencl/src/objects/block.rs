//! Blocks: memory of the platform's that holds a buffer between two canaries.

use crate::objects::written::Written;
use heap::canary::{Key, Layout, Side};

/// The platform's handle or address of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A `cl_mem`, which lives as long as the program's object.
    Buffer(usize),
    /// Shared virtual memory, by its address.
    Svm(usize),
}

/// A block with canaries.
pub struct Block {
    pub memory: Memory,
    pub layout: Layout,
    pub key: Key,
    /// Both canaries as they must be, one after the other.
    intact: Box<[u8]>,
    pub written: Written,
}

impl Block {
    /// A block without content, and without canaries so far.
    pub fn new(memory: Memory, layout: Layout, key: Key) -> Block {
        let length = layout.length() as usize;
        let mut intact = vec![0; 2 * length].into_boxed_slice();
        let (before, after) = intact.split_at_mut(length);
        layout.fill(&key, Side::Before, before);
        layout.fill(&key, Side::After, after);
        Block {
            memory,
            layout,
            key,
            intact,
            written: Written::default(),
        }
    }

    /// Both canaries as they must be.
    pub fn intact(&self) -> &[u8] {
        &self.intact
    }

    /// Bytes of both canaries.
    pub fn canary_bytes(&self) -> usize {
        self.intact.len()
    }
}
