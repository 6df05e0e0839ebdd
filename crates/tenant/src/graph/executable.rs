//! Executable graphs: the work of a graph's nodes in an order that respects the
//! edges. A launch puts it into one stream.

use super::{Graph, INVALID, find, keep_attributes, objects};
use crate::capture;
use crate::convert::Answer;
use crate::event;
use crate::link::Link;
use crate::state::enter;
use crate::work::Work;
use driver::graphs::{self, Shape};
use driver::sys::{CUgraphNodeType, CUresult};
use parking_lot::Mutex;
use std::sync::Arc;

/// A graph made ready to launch.
pub(crate) struct Executable {
    steps: Mutex<Vec<Step>>,
    /// How its nodes depend on each other.
    shape: Vec<Shape>,
    /// As the program gave them.
    pub(super) flags: u64,
    /// User objects, of each of which it has a reference.
    objects: Vec<u64>,
    /// The stream of its newest launch, which the next one comes behind.
    stream: Mutex<Option<u32>>,
}

struct Step {
    node: u64,
    work: Work,
    /// `cuGraphNodeSetEnabled`
    is_enabled: bool,
}

/// The driver's number for a kind of node.
pub(super) fn kind(work: &Work) -> CUgraphNodeType {
    use CUgraphNodeType as T;
    match work {
        Work::Empty => T::CU_GRAPH_NODE_TYPE_EMPTY,
        Work::Kernel(_) => T::CU_GRAPH_NODE_TYPE_KERNEL,
        Work::Copy(_) => T::CU_GRAPH_NODE_TYPE_MEMCPY,
        Work::Fill(_) => T::CU_GRAPH_NODE_TYPE_MEMSET,
        Work::Call(_) => T::CU_GRAPH_NODE_TYPE_HOST,
        Work::Child(_) | Work::Sequence(_) => T::CU_GRAPH_NODE_TYPE_GRAPH,
        Work::Record(_) => T::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        Work::Wait(_) => T::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        Work::Allocate(_) => T::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        Work::Release(..) => T::CU_GRAPH_NODE_TYPE_MEM_FREE,
    }
}

/// Work with all child graphs as they are now; `None` if one has a cycle.
fn settled(work: Work) -> Option<Work> {
    let Work::Child(graph) = work else {
        return Some(work);
    };
    let works = graph.sorted()?.into_iter().map(|(_, work)| settled(work));
    Some(Work::Sequence(Arc::new(works.collect::<Option<_>>()?)))
}

fn settled_nodes(graph: &Graph) -> Option<Vec<(u64, Work)>> {
    let nodes = graph.sorted()?.into_iter();
    nodes
        .map(|(node, work)| Some((node, settled(work)?)))
        .collect()
}

/// `cuGraphInstantiateWithFlags`
pub(super) fn instantiate(link: &Link, graph: u64, flags: u64) -> Result<u64, CUresult> {
    enter(link)?;
    let graph = find(link, graph)?;
    if !graphs::are_flags(flags) {
        return Err(INVALID);
    }
    let nodes = settled_nodes(&graph).ok_or(INVALID)?;
    let shape = graph.shape().ok_or(INVALID)?;
    let steps = nodes.into_iter().map(|(node, work)| Step {
        node,
        work,
        is_enabled: true,
    });
    let handle = link.state.handle();
    let made = Arc::new(Executable {
        steps: Mutex::new(steps.collect()),
        shape,
        flags,
        objects: objects::held(link, &graph),
        stream: Mutex::default(),
    });
    link.state.graphs.executables.lock().insert(handle, made);
    Ok(handle)
}

pub(super) fn get(link: &Link, handle: u64) -> Result<Arc<Executable>, CUresult> {
    let all = link.state.graphs.executables.lock();
    all.get(&handle).cloned().ok_or(INVALID)
}

/// `cuGraphExecDestroy`
pub(super) fn destroy(link: &'static Link, handle: u64) -> Answer {
    let removed = link.state.graphs.executables.lock().remove(&handle);
    let removed = removed.ok_or(INVALID)?;
    let stream = removed.stream.lock().take();
    let stream = stream.map(|stream| link.state.standing_for(stream));
    for &object in &removed.objects {
        match stream {
            // What uses it may still be executed.
            Some(stream) => objects::release_behind(link, stream, object)?,
            None => objects::release(link, object, 1)?,
        }
    }
    Ok(())
}

/// Does something with the step of a node.
fn with_step<T>(
    link: &Link,
    handle: u64,
    node: u64,
    work: impl FnOnce(&mut Step) -> Result<T, CUresult>,
) -> Result<T, CUresult> {
    let executable = get(link, handle)?;
    let mut steps = executable.steps.lock();
    let step = steps.iter_mut().find(|step| step.node == node);
    work(step.ok_or(INVALID)?)
}

/// `cuGraphExecKernelNodeSetParams` and kin.
pub(super) fn set(link: &Link, handle: u64, node: u64, to: Work) -> Answer {
    let work = settled(to).ok_or(INVALID)?;
    with_step(link, handle, node, |step| {
        if kind(&step.work) != kind(&work) {
            return Err(INVALID);
        }
        step.work = keep_attributes(&step.work, work);
        Ok(())
    })
}

/// `cuGraphNodeSetEnabled`: kernels, copies and memsets only.
pub(super) fn enable(link: &Link, handle: u64, node: u64, is_enabled: bool) -> Answer {
    with_step(link, handle, node, |step| {
        if !matches!(step.work, Work::Kernel(_) | Work::Copy(_) | Work::Fill(_)) {
            return Err(INVALID);
        }
        step.is_enabled = is_enabled;
        Ok(())
    })
}

/// `cuGraphNodeGetEnabled`
pub(super) fn is_enabled(link: &Link, handle: u64, node: u64) -> Result<bool, CUresult> {
    with_step(link, handle, node, |step| Ok(step.is_enabled))
}

/// `cuGraphExecUpdate`: takes the work of a graph of the same shape.
pub(super) fn update(link: &Link, handle: u64, graph: u64) -> Answer {
    let failed = CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    let (executable, graph) = (get(link, handle)?, find(link, graph)?);
    let fresh = settled_nodes(&graph).ok_or(failed)?;
    if graph.shape().as_ref() != Some(&executable.shape) {
        return Err(failed);
    }
    let mut steps = executable.steps.lock();
    let mut pairs = steps.iter().zip(&fresh);
    let is_same = pairs.all(|(step, (_, work))| kind(&step.work) == kind(work));
    if steps.len() != fresh.len() || !is_same {
        return Err(failed);
    }
    for (step, (_, work)) in steps.iter_mut().zip(fresh) {
        // Handles stay: later calls name nodes of the original graph.
        step.work = work;
    }
    Ok(())
}

/// `cuGraphLaunch`
pub(super) fn launch(link: &'static Link, handle: u64, stream: u32) -> Answer {
    enter(link)?;
    let executable = get(link, handle)?;
    let steps = executable.steps.lock();
    let enabled = steps.iter().filter(|step| step.is_enabled);
    let works: Vec<Work> = enabled.map(|step| step.work.clone()).collect();
    drop(steps);
    let work = Work::Sequence(Arc::new(works));
    if capture::node(link, stream, || work.clone())? {
        return Ok(());
    }
    if !graphs::frees_on_launch(executable.flags) && allocates_again(&work) {
        return Err(INVALID);
    }
    // (Of two launches at the same time, either may be the first.)
    let mut last = executable.stream.lock();
    if let Some(before) = last.replace(stream) {
        let before = link.state.standing_for(before);
        if before != stream {
            event::follow(link, stream, before)?;
        }
    }
    work.put(link, stream)
}

/// Whether work allocates what an earlier launch has allocated and nobody has freed.
fn allocates_again(work: &Work) -> bool {
    match work {
        Work::Allocate(memory) => memory.is_live(),
        Work::Sequence(all) => all.iter().any(allocates_again),
        _ => false,
    }
}
