//! Memory that C functions hand out pointers to: the program reads it long after
//! the call. All of it lies on the heap and stays where it is when these maps
//! grow.

use crate::call::UserData;
use driver::sys::{CUDA_MEM_ALLOC_NODE_PARAMS, CUgraphNode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// The parameters of a kernel node.
#[derive(Default)]
struct Parameters {
    block: Vec<u8>,
    /// Into the block, one a parameter.
    each: Vec<UserData>,
}

/// An allocation node as the program described it.
struct Described(CUDA_MEM_ALLOC_NODE_PARAMS);

// SAFETY: its pointers are the program's; they are given back and not used.
unsafe impl Send for Described {}

/// All that is lent.
#[derive(Default)]
pub(super) struct Lent {
    /// The nodes that a stream's capture was last asked for, by stream.
    dependencies: Mutex<BTreeMap<u32, Vec<CUgraphNode>>>,
    /// By kernel node that was asked for its parameters.
    parameters: Mutex<BTreeMap<u64, Parameters>>,
    /// By allocation node.
    allocations: Mutex<BTreeMap<u64, Described>>,
}

impl Lent {
    /// Nodes for a question about a stream, until the next one about it.
    pub(super) fn dependencies(&self, stream: u32, nodes: Vec<u64>) -> *const CUgraphNode {
        let mut dependencies = self.dependencies.lock();
        let lent = dependencies.entry(stream).or_default();
        *lent = nodes.into_iter().map(CUgraphNode).collect();
        lent.as_ptr()
    }

    /// One pointer a parameter into the block of a kernel node, whose parameters
    /// start at these offsets. Until the node is asked again.
    pub(super) fn parameters(
        &self,
        node: u64,
        block: Vec<u8>,
        offsets: impl Iterator<Item = u32>,
    ) -> *mut *mut c_void {
        let mut parameters = self.parameters.lock();
        let lent = parameters.entry(node).or_default();
        lent.block = block;
        let base = lent.block.as_mut_ptr();
        let each = offsets.map(|offset| UserData(base.wrapping_add(offset as usize).cast()));
        lent.each = each.collect();
        // UserData is a pointer and nothing else.
        lent.each.as_mut_ptr().cast()
    }

    /// Keeps the program's description of an allocation node.
    pub(super) fn keep_allocation(&self, node: u64, description: CUDA_MEM_ALLOC_NODE_PARAMS) {
        self.allocations.lock().insert(node, Described(description));
    }

    /// The program's description of an allocation node.
    pub(super) fn allocation(&self, node: u64) -> Option<CUDA_MEM_ALLOC_NODE_PARAMS> {
        self.allocations.lock().get(&node).map(|kept| kept.0)
    }

    /// A node is gone.
    pub(super) fn forget(&self, node: u64) {
        self.parameters.lock().remove(&node);
        self.allocations.lock().remove(&node);
    }
}

/// Nodes for a question about a stream, until the next one about it.
pub(crate) fn dependencies(
    link: &crate::link::Link,
    stream: u32,
    nodes: Vec<u64>,
) -> *const CUgraphNode {
    link.state.graphs.lent.dependencies(stream, nodes)
}
