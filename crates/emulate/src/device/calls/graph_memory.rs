//! Memory that belongs to graphs: allocation and free nodes, added or captured.
//!
//! The address is fixed when the node is added; here the pages are, too. They
//! go when no graph holds the node any more, unless the program still has what
//! a launch allocated: then it frees them.

use crate::device::basics::Result;
use crate::device::objects::graph_memory::{GraphMemory, Reclaim};
use crate::device::objects::memory::Allocation;
use crate::device::objects::work::Graph;
use crate::device::objects::work::Work;
use crate::device::state::{Device, State};
use driver::sys::CUresult;
use model::AllocationKind;
use std::sync::{Arc, Weak};

impl Reclaim for State {
    fn reclaim(&self, address: u64, live: bool) {
        self.graph_memory.lock().remove(&address);
        if live {
            // The program frees it, as it may after the graph is gone.
            return;
        }
        let tickets = self.in_flight();
        let mut allocations = self.allocations.lock();
        let pool = |a: &Allocation| a.kind == AllocationKind::Pool;
        if let Some(allocation) = allocations.remove(address, pool) {
            self.let_go(&mut allocations, allocation, tickets);
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
        let owner: Weak<State> = Arc::downgrade(&self.state);
        let memory = Arc::new(GraphMemory::new(address, size, owner));
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
