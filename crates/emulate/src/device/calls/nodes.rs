//! What the nodes of graphs say about themselves, and new parameters for them.

use crate::device::basics::Result;
use crate::device::objects::copy::{Copy, Fill};
use crate::device::objects::graph::{GraphNode, graphs_of, keep_attributes, kind};
use crate::device::objects::launch::Launch;
use crate::device::objects::work::{HostFunction, Work};
use crate::device::state::Device;
use driver::sys::CUresult;
use std::sync::Arc;

impl Device {
    /// What a node's work says; INVALID_VALUE for a node of another kind.
    fn of_node<T>(&self, node: u64, read: impl FnOnce(&Work) -> Option<T>) -> Result<T> {
        let (graph, index) = self.node(node)?;
        let nodes = graph.nodes.lock();
        read(&nodes[index].work).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// `cuGraphKernelNodeGetParams`
    pub fn node_launch(&self, node: u64) -> Result<Launch> {
        self.of_node(node, |work| match work {
            Work::Kernel(call) => Some(call.launch.clone()),
            _ => None,
        })
    }

    /// `cuGraphMemsetNodeGetParams`
    pub fn node_fill(&self, node: u64) -> Result<Fill> {
        self.of_node(node, |work| match work {
            Work::Fill(fill) => Some(*fill),
            _ => None,
        })
    }

    /// `cuGraphMemcpyNodeGetParams`
    pub fn node_copy(&self, node: u64) -> Result<Copy> {
        self.of_node(node, |work| match work {
            Work::Copy(copy) => Some(*copy),
            _ => None,
        })
    }

    /// `cuGraphHostNodeGetParams`
    pub fn node_host(&self, node: u64) -> Result<Arc<dyn HostFunction>> {
        self.of_node(node, |work| match work {
            Work::Host(function) => Some(function.clone()),
            _ => None,
        })
    }

    /// `cuGraphChildGraphNodeGetGraph`
    pub fn node_child(&self, node: u64) -> Result<u64> {
        self.of_node(node, |work| match work {
            Work::Child(graph) => Some(graph.handle),
            _ => None,
        })
    }

    /// `cuGraphEventRecordNodeGetEvent`
    pub fn node_recorded(&self, node: u64) -> Result<u64> {
        self.of_node(node, |work| match work {
            Work::Record(event) => Some(event.handle),
            _ => None,
        })
    }

    /// `cuGraphEventWaitNodeGetEvent`
    pub fn node_awaited(&self, node: u64) -> Result<u64> {
        self.of_node(node, |work| match work {
            Work::Await(event) => Some(event.handle),
            _ => None,
        })
    }

    /// `cuGraphMemAllocNodeGetParams`: address and size of what a node
    /// allocates.
    pub fn node_allocation(&self, node: u64) -> Result<(u64, u64)> {
        self.of_node(node, |work| match work {
            Work::Allocate(memory) => Some((memory.address, memory.size)),
            _ => None,
        })
    }

    /// `cuGraphMemFreeNodeGetParams`: what a node frees.
    pub fn node_release(&self, node: u64) -> Result<u64> {
        self.of_node(node, |work| match work {
            Work::Release(address, _) => Some(*address),
            _ => None,
        })
    }

    /// `cuGraphNodeGetDependencies`, or with `dependents` the nodes that
    /// depend on it.
    pub fn node_neighbours(&self, node: u64, dependents: bool) -> Result<Vec<u64>> {
        let (graph, index) = self.node(node)?;
        let nodes = graph.nodes.lock();
        let alive = |i: &usize| nodes[*i].alive;
        let found: Vec<usize> = if dependents {
            (0..nodes.len())
                .filter(|i| nodes[*i].after.contains(&index))
                .filter(alive)
                .collect()
        } else {
            nodes[index].after.iter().copied().filter(alive).collect()
        };
        Ok(found.into_iter().map(|i| nodes[i].handle).collect())
    }

    /// `cuGraphNodeFindInClone`
    pub fn node_in_clone(&self, node: u64, clone: u64) -> Result<u64> {
        // Clones keep positions.
        let (_, index) = self.node(node)?;
        self.graph(clone)?
            .handles(&[index])
            .first()
            .copied()
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// `cuGraphKernelNodeSetParams` and kin.
    pub fn node_set(&self, node: u64, to: &GraphNode) -> Result<()> {
        let (graph, index) = self.node(node)?;
        let old = graph.nodes.lock()[index].work.clone();
        let work = self.node_work(&keep_attributes(&old, to))?;
        if kind(&old) != kind(&work) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        graph.nodes.lock()[index].work = self.owned(work)?;
        self.destroy_owned(graphs_of(&old));
        Ok(())
    }
}
