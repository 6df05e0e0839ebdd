//! Memory that belongs to graphs: allocation and free nodes, added or captured.
//!
//! The address is fixed when the node is added; here the pages are, too. They
//! go when no graph holds the node any more, unless the program still has what
//! a launch allocated: then it frees them.

use super::graph::Graph;
use super::memory::Allocation;
use super::work::Work;
use super::{Device, Result, State};
use driver::sys::CUresult;
use model::AllocationKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The memory of an allocation node.
pub(crate) struct GraphMemory {
    address: u64,
    /// A launch allocated it, and nothing freed it since.
    live: AtomicBool,
    state: Weak<State>,
}

impl GraphMemory {
    /// The node is executed: it allocates, or frees.
    pub fn set_live(&self, live: bool) {
        self.live.store(live, Ordering::Release);
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        let Some(state) = self.state.upgrade() else {
            return;
        };
        state.graph_memory.lock().remove(&self.address);
        if *self.live.get_mut() {
            // The program frees it, as it may after the graph is gone.
            return;
        }
        let tickets = state.in_flight();
        let mut allocations = state.allocations.lock();
        let pool = |a: &Allocation| a.kind == AllocationKind::Pool;
        if let Some(allocation) = allocations.remove(self.address, pool) {
            state.let_go(&mut allocations, allocation, tickets);
        }
    }
}

impl Device {
    /// The memory of a graph at an address, if it is one's.
    pub(crate) fn memory_of_graph(&self, address: u64) -> Option<Arc<GraphMemory>> {
        self.state.graph_memory.lock().get(&address)?.upgrade()
    }

    /// Memory for an allocation node, and what the node does.
    pub(crate) fn graph_memory(&self, size: u64) -> Result<(u64, Work)> {
        let address = self.allocate(size, AllocationKind::Pool, 0)?.0;
        let memory = Arc::new(GraphMemory {
            address,
            live: AtomicBool::new(false),
            state: Arc::downgrade(&self.state),
        });
        self.state
            .graph_memory
            .lock()
            .insert(address, Arc::downgrade(&memory));
        Ok((address, Work::Allocate(memory)))
    }

    /// What a node does that frees an address.
    pub(crate) fn graph_release(&self, address: u64) -> Result<Work> {
        match self.memory_of_graph(address) {
            Some(memory) => Ok(Work::Release(address, Some(memory))),
            // Memory from outside stays: each launch may use it again.
            None if self.pointer_info(address).is_some() => Ok(Work::Release(address, None)),
            None => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn added(&self, graph: &Arc<Graph>, work: Work, after: &[u64]) -> Result<u64> {
        let after = self.node_indices(graph, after)?;
        let index = self.graph_node(graph, work, &after);
        let handles = graph.handles(&[index]);
        handles.first().copied().ok_or(CUresult::CUDA_ERROR_UNKNOWN)
    }

    /// `cuGraphAddMemAllocNode`: the node and the address.
    pub fn graph_add_allocation(&self, graph: u64, after: &[u64], size: u64) -> Result<(u64, u64)> {
        self.enter()?;
        let graph = self.graph(graph)?;
        let (address, work) = self.graph_memory(size)?;
        Ok((self.added(&graph, work, after)?, address))
    }

    /// `cuGraphAddMemFreeNode`
    pub fn graph_add_release(&self, graph: u64, after: &[u64], address: u64) -> Result<u64> {
        self.enter()?;
        let graph = self.graph(graph)?;
        let work = self.graph_release(address)?;
        self.added(&graph, work, after)
    }
}
