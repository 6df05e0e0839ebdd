//! Executable graphs. One is the list of its nodes' work in an order that
//! respects the edges; a launch executes it within one stream.

use crate::device::basics::Result;
use crate::device::objects::graph::{
    Executable, GraphNode, NodeKind, Step, keep_attributes, kind, settled,
};
use crate::device::objects::work::Work;
use crate::device::state::Device;
use driver::graphs;
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::sync::Arc;

impl Device {
    /// `cuGraphInstantiateWithFlags`
    pub fn graph_instantiate(&self, graph: u64, flags: u64) -> Result<u64> {
        self.enter()?;
        let graph = self.graph(graph)?;
        if !graphs::are_flags(flags) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
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
        let (handle, shape) = (self.handle(), graph.shape());
        self.state.executables.write().insert(
            handle,
            Arc::new(Executable {
                nodes: Mutex::new(steps),
                first: self.values(&graph),
                shape: shape.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?,
                flags,
                held: Arc::new(self.held_objects(&graph)),
                last: Mutex::default(),
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

    /// `cuGraphExecGetFlags`
    pub fn executable_flags(&self, handle: u64) -> Result<u64> {
        self.executable(handle).map(|executable| executable.flags)
    }

    /// `cuGraphExecDestroy`
    pub fn executable_destroy(&self, handle: u64) -> Result<()> {
        let removed = self.state.executables.write().remove(&handle);
        // (What ends with it may call the program: without the lock.)
        removed.map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
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
        let graph = self.graph(graph)?;
        let (fresh, shape) = (graph.sorted(), graph.shape());
        let fresh = fresh.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let mut nodes = executable.nodes.lock();
        let same = shape.as_ref() == Some(&executable.shape)
            && nodes.len() == fresh.len()
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
        let mut works: Vec<Work> = executable
            .first
            .iter()
            .chain(enabled.map(|step| &step.work))
            .cloned()
            .collect();
        drop(nodes);
        if let Some(contained) = stream.contained.get() {
            works.iter_mut().for_each(|work| work.contain(contained));
        }
        if !executable.held.is_empty() {
            let held = executable.held.clone();
            works.push(Work::Host(Arc::new(move || held.stays())));
        }
        let works = Arc::new(works);
        let work = Work::Sequence(Arc::clone(&works));
        if self.capture(&stream, &work)? {
            return Ok(());
        }
        owe(&works, graphs::frees_on_launch(executable.flags))?;
        // (Of two launches at the same time, either may be the first.)
        let mut last = executable.last.lock();
        let before = last.take().into_iter().collect();
        *last = Some(self.submit(&stream, work, before, false));
        Ok(())
    }
}

/// Notes what a launch allocates and frees. One that would allocate what is not freed is
/// refused, unless it frees that itself.
fn owe(works: &[Work], frees_first: bool) -> Result<()> {
    if !frees_first && has_owed(works) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    set_owed(works);
    Ok(())
}

fn has_owed(works: &[Work]) -> bool {
    works.iter().any(|work| match work {
        Work::Allocate(memory) => memory.is_owed(),
        Work::Sequence(works) => has_owed(works),
        _ => false,
    })
}

fn set_owed(works: &[Work]) {
    for work in works {
        match work {
            Work::Allocate(memory) => memory.set_owed(true),
            Work::Release(_, Some(memory)) => memory.set_owed(false),
            Work::Sequence(works) => set_owed(works),
            _ => {}
        }
    }
}
