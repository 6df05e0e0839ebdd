//! Executable graphs. One is the list of its nodes' work in an order that
//! respects the edges; a launch executes it within one stream.

use crate::device::basics::Result;
use crate::device::objects::graph::{
    Executable, GraphNode, NodeKind, Step, keep_attributes, kind, settled,
};
use crate::device::objects::work::Work;
use crate::device::state::Device;
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::sync::Arc;

impl Device {
    /// `cuGraphInstantiate`
    pub fn graph_instantiate(&self, graph: u64) -> Result<u64> {
        self.enter()?;
        let graph = self.graph(graph)?;
        let nodes = graph.sorted().ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let steps = nodes
            .into_iter()
            .map(|(node, work)| {
                Some(Step {
                    node,
                    work: settled(work)?,
                    enabled: true,
                })
            })
            .collect::<Option<Vec<_>>>()
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let handle = self.handle();
        self.state.executables.write().insert(
            handle,
            Arc::new(Executable {
                nodes: Mutex::new(steps),
                first: self.values(&graph),
            }),
        );
        Ok(handle)
    }

    fn executable(&self, handle: u64) -> Result<Arc<Executable>> {
        self.state
            .executables
            .read()
            .get(&handle)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// Whether a handle is an executable graph, else the error for it.
    pub fn executable_exists(&self, handle: u64) -> Result<()> {
        self.executable(handle).map(drop)
    }

    /// `cuGraphExecDestroy`
    pub fn executable_destroy(&self, handle: u64) -> Result<()> {
        self.state
            .executables
            .write()
            .remove(&handle)
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// `cuGraphExecKernelNodeSetParams` and kin.
    pub fn executable_set(&self, handle: u64, node: u64, to: &GraphNode) -> Result<()> {
        let executable = self.executable(handle)?;
        let old = {
            let nodes = executable.nodes.lock();
            let step = nodes.iter().find(|step| step.node == node);
            step.map(|step| step.work.clone())
                .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?
        };
        let work = settled(self.node_work(&keep_attributes(&old, to))?)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let mut nodes = executable.nodes.lock();
        if let Some(step) = nodes.iter_mut().find(|step| step.node == node) {
            step.work = work;
        }
        Ok(())
    }

    /// `cuGraphNodeSetEnabled`: kernels, copies and memsets only.
    pub fn executable_enable(&self, handle: u64, node: u64, enabled: bool) -> Result<()> {
        let executable = self.executable(handle)?;
        let mut nodes = executable.nodes.lock();
        let step = nodes
            .iter_mut()
            .find(|step| step.node == node)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if !matches!(
            kind(&step.work),
            NodeKind::Kernel | NodeKind::Copy | NodeKind::Fill
        ) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        step.enabled = enabled;
        Ok(())
    }

    /// `cuGraphNodeGetEnabled`
    pub fn executable_enabled(&self, handle: u64, node: u64) -> Result<bool> {
        let executable = self.executable(handle)?;
        let nodes = executable.nodes.lock();
        let step = nodes
            .iter()
            .find(|step| step.node == node)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(step.enabled)
    }

    /// `cuGraphExecUpdate`: takes the work of a graph of the same shape.
    pub fn executable_update(&self, handle: u64, graph: u64) -> Result<()> {
        let executable = self.executable(handle)?;
        let fresh = self
            .graph(graph)?
            .sorted()
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let mut nodes = executable.nodes.lock();
        let same = nodes.len() == fresh.len()
            && nodes
                .iter()
                .zip(&fresh)
                .all(|(a, b)| kind(&a.work) == kind(&b.1));
        if !same {
            return Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        }
        for (step, (_, work)) in nodes.iter_mut().zip(fresh) {
            // Handles stay: later calls name nodes of the original graph.
            step.work = settled(work).ok_or(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)?;
        }
        Ok(())
    }

    /// `cuGraphLaunch`
    pub fn graph_launch(&self, handle: u64, stream: u64) -> Result<()> {
        self.enter()?;
        let executable = self.executable(handle)?;
        let stream = self.state.stream(stream)?;
        let nodes = executable.nodes.lock();
        let enabled = nodes.iter().filter(|step| step.enabled);
        let works: Vec<Work> = executable
            .first
            .iter()
            .chain(enabled.map(|step| &step.work))
            .cloned()
            .collect();
        drop(nodes);
        self.enqueue(&stream, Work::Sequence(Arc::new(works)), false)
    }
}
