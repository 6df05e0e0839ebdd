//! Graphs. An executable graph is the list of its nodes' work in an order
//! that respects the edges; a launch executes it within one stream.

use super::copy::{Copy, Fill};
use super::launch::{KernelCall, Launch};
use super::work::{Branch, Condition, Conditional, Work};
use super::{Device, Result};
use driver::sys::CUresult;
use model::AllocationKind;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

struct Node {
    handle: u64,
    work: Work,
    after: BTreeSet<usize>,
    /// False once destroyed: indices of the others must not move.
    alive: bool,
}

/// A graph.
pub(crate) struct Graph {
    pub handle: u64,
    nodes: Mutex<Vec<Node>>,
    /// Values of conditional nodes, by address, with what each launch of the
    /// graph sets them to.
    values: Mutex<Vec<(u64, Option<u32>)>>,
}

/// A graph made ready to launch.
pub(crate) struct Executable {
    nodes: Mutex<Vec<Step>>,
    /// Sets the values of conditional nodes.
    first: Vec<Work>,
}

/// A node of an executable graph, in order.
struct Step {
    node: u64,
    work: Work,
    /// `cuGraphNodeSetEnabled`
    enabled: bool,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A memset.
    Fill,
    /// A function of the host.
    Host,
    /// A graph within.
    Child,
    /// Nothing.
    Empty,
    /// Records an event.
    Record,
    /// Waits for an event.
    Wait,
    /// Writes or waits for a value in memory.
    Value,
    /// Executes one of several graphs, or one again and again.
    Conditional,
    /// Allocates memory.
    Allocate,
    /// Frees memory.
    Release,
}

/// A node to add.
#[derive(Clone)]
pub enum GraphNode {
    /// A kernel; its parameters are copied now.
    Kernel(Launch),
    /// A copy.
    Copy(Copy),
    /// A memset.
    Fill(Fill),
    /// A function of the host.
    Host(Arc<dyn Fn() + Send + Sync>),
    /// Another graph, copied now.
    Child(u64),
    /// Records an event.
    Record(u64),
    /// Waits for an event.
    Wait(u64),
    /// Nothing.
    Empty,
}

impl Graph {
    /// Nodes that the given ones depend on, with themselves.
    pub fn ancestors(&self, of: &[usize]) -> BTreeSet<usize> {
        let nodes = self.nodes.lock();
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = of.to_vec();
        while let Some(index) = open.pop() {
            if found.insert(index)
                && let Some(node) = nodes.get(index)
            {
                open.extend(&node.after);
            }
        }
        found
    }

    /// Handles of nodes.
    pub fn handles(&self, indices: &[usize]) -> Vec<u64> {
        let nodes = self.nodes.lock();
        indices
            .iter()
            .filter_map(|index| nodes.get(*index))
            .map(|node| node.handle)
            .collect()
    }

    /// Live nodes in an order that respects the edges; `None` if they form a
    /// cycle.
    fn sorted(&self) -> Option<Vec<(u64, Work)>> {
        let nodes = self.nodes.lock();
        let mut done = vec![false; nodes.len()];
        let mut order = Vec::new();
        let mut left = nodes.iter().filter(|node| node.alive).count();
        while left > 0 {
            let before = left;
            for (index, node) in nodes.iter().enumerate() {
                let ready = |after: &usize| done[*after] || !nodes[*after].alive;
                if node.alive && !done[index] && node.after.iter().all(ready) {
                    done[index] = true;
                    left -= 1;
                    order.push((node.handle, node.work.clone()));
                }
            }
            if left == before {
                return None;
            }
        }
        Some(order)
    }
}

/// The work of an executable graph, with all graphs of conditional nodes as
/// they are now; `None` if one of them has a cycle.
fn settled(work: Work) -> Option<Work> {
    let all = |works: &[Work]| {
        works
            .iter()
            .cloned()
            .map(settled)
            .collect::<Option<Vec<_>>>()
    };
    Some(match work {
        Work::Sequence(works) => Work::Sequence(Arc::new(all(&works)?)),
        Work::Conditional(node) => {
            let bodies = node.graphs.iter().map(|graph| {
                let works: Vec<Work> = graph.sorted()?.into_iter().map(|(_, work)| work).collect();
                all(&works)
            });
            Work::Branch(Arc::new(Branch {
                value: node.value,
                condition: node.condition,
                bodies: bodies.collect::<Option<Vec<_>>>()?,
            }))
        }
        work => work,
    })
}

/// New parameters of a kernel node leave its attributes as they are.
fn keep_attributes(old: &Work, new: &GraphNode) -> GraphNode {
    match (old, new) {
        (Work::Kernel(old), GraphNode::Kernel(new)) => GraphNode::Kernel(Launch {
            cluster: old.launch.cluster,
            cooperative: old.launch.cooperative,
            ..new.clone()
        }),
        _ => new.clone(),
    }
}

fn kind(work: &Work) -> NodeKind {
    match work {
        Work::Kernel(_) => NodeKind::Kernel,
        Work::Copy(_) | Work::Upload { .. } => NodeKind::Copy,
        Work::Fill(_) => NodeKind::Fill,
        Work::Host(_) => NodeKind::Host,
        Work::Sequence(_) => NodeKind::Child,
        Work::Record(_) | Work::Stamp(_) => NodeKind::Record,
        Work::Await(_) => NodeKind::Wait,
        Work::WriteValue { .. } | Work::WaitValue { .. } => NodeKind::Value,
        Work::Conditional(_) | Work::Branch(_) => NodeKind::Conditional,
        Work::Allocate(_) => NodeKind::Allocate,
        Work::Release(..) => NodeKind::Release,
        Work::Nothing => NodeKind::Empty,
    }
}

impl Device {
    pub(crate) fn graph(&self, handle: u64) -> Result<Arc<Graph>> {
        self.state
            .graphs
            .read()
            .get(&handle)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    fn node(&self, handle: u64) -> Result<(Arc<Graph>, usize)> {
        self.state
            .nodes
            .read()
            .get(&handle)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// Positions of nodes of a graph.
    pub(crate) fn node_indices(&self, graph: &Arc<Graph>, handles: &[u64]) -> Result<Vec<usize>> {
        let index = |handle: &u64| {
            let (owner, index) = self.node(*handle)?;
            if Arc::ptr_eq(&owner, graph) {
                Ok(index)
            } else {
                Err(CUresult::CUDA_ERROR_INVALID_VALUE)
            }
        };
        handles.iter().map(index).collect()
    }

    /// Adds a node and gives its position.
    pub(crate) fn graph_node(&self, graph: &Arc<Graph>, work: Work, after: &[usize]) -> usize {
        let handle = self.handle();
        let mut nodes = graph.nodes.lock();
        let index = nodes.len();
        nodes.push(Node {
            handle,
            work,
            after: after.iter().copied().collect(),
            alive: true,
        });
        drop(nodes);
        self.state
            .nodes
            .write()
            .insert(handle, (graph.clone(), index));
        index
    }

    /// `cuGraphCreate`
    pub fn graph_create(&self) -> Result<u64> {
        self.enter()?;
        let handle = self.handle();
        let graph = Graph {
            handle,
            nodes: Mutex::default(),
            values: Mutex::default(),
        };
        self.state.graphs.write().insert(handle, Arc::new(graph));
        Ok(handle)
    }

    /// `cuGraphDestroy`
    pub fn graph_destroy(&self, handle: u64) -> Result<()> {
        let graph = self
            .state
            .graphs
            .write()
            .remove(&handle)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let mut bodies = Vec::new();
        let mut known = self.state.nodes.write();
        for node in graph.nodes.lock().iter() {
            known.remove(&node.handle);
            if let Work::Conditional(node) = &node.work {
                bodies.extend(node.graphs.iter().map(|graph| graph.handle));
            }
        }
        drop(known);
        for body in bodies {
            // They belong to the node; a clone of the graph may have it, too.
            let _ = self.graph_destroy(body);
        }
        Ok(())
    }

    /// `cuGraphClone`
    pub fn graph_clone(&self, handle: u64) -> Result<u64> {
        let original = self.graph(handle)?;
        let copy = self.graph(self.graph_create()?)?;
        let nodes: Vec<_> = original
            .nodes
            .lock()
            .iter()
            .map(|n| (n.work.clone(), n.after.clone(), n.alive))
            .collect();
        for (work, after, alive) in nodes {
            let index = self.graph_node(&copy, work, &after.into_iter().collect::<Vec<_>>());
            copy.nodes.lock()[index].alive = alive;
        }
        Ok(copy.handle)
    }

    fn node_work(&self, node: &GraphNode) -> Result<Work> {
        Ok(match node {
            GraphNode::Kernel(launch) => Work::Kernel(self.kernel_call(launch.clone())?),
            GraphNode::Copy(copy) => self.checked(*copy)?.map_or(Work::Nothing, Work::Copy),
            GraphNode::Fill(fill) => self.checked_fill(*fill)?.map_or(Work::Nothing, Work::Fill),
            GraphNode::Host(function) => Work::Host(function.clone()),
            GraphNode::Child(graph) => {
                let nodes = self
                    .graph(*graph)?
                    .sorted()
                    .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
                Work::Sequence(Arc::new(nodes.into_iter().map(|(_, work)| work).collect()))
            }
            GraphNode::Record(event) => Work::Record(self.state.event(*event)?),
            GraphNode::Wait(event) => Work::Await(self.state.event(*event)?),
            GraphNode::Empty => Work::Nothing,
        })
    }

    /// `cuGraphAddKernelNode`, `cuGraphAddMemcpyNode`, … : the node's handle.
    pub fn graph_add(&self, graph: u64, node: &GraphNode, after: &[u64]) -> Result<u64> {
        self.enter()?;
        let graph = self.graph(graph)?;
        let after = self.node_indices(&graph, after)?;
        let index = self.graph_node(&graph, self.node_work(node)?, &after);
        graph
            .handles(&[index])
            .first()
            .copied()
            .ok_or(CUresult::CUDA_ERROR_UNKNOWN)
    }

    /// `cuGraphConditionalHandleCreate`: the handle is the address of the
    /// value, which kernels set through it. `default` is what each launch of
    /// the graph sets it to.
    pub fn condition_create(&self, graph: u64, default: Option<u32>) -> Result<u64> {
        self.enter()?;
        let graph = self.graph(graph)?;
        let value = self.allocate(8, AllocationKind::Foreign, 0)?;
        self.state
            .memory
            .fill(value.0, &[0], 8)
            .map_err(|_| CUresult::CUDA_ERROR_UNKNOWN)?;
        graph.values.lock().push((value.0, default));
        Ok(value.0)
    }

    /// Adds a conditional node; gives its handle and its empty graphs.
    pub fn graph_add_conditional(
        &self,
        graph: u64,
        after: &[u64],
        value: u64,
        condition: Condition,
        bodies: u32,
    ) -> Result<(u64, Vec<u64>)> {
        self.enter()?;
        let most = match condition {
            Condition::While => 1,
            Condition::If => 2,
            Condition::Switch => u32::MAX,
        };
        if bodies == 0 || bodies > most {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let graph = self.graph(graph)?;
        let after = self.node_indices(&graph, after)?;
        let graphs = (0..bodies)
            .map(|_| self.graph(self.graph_create()?))
            .collect::<Result<Vec<_>>>()?;
        let handles = graphs.iter().map(|graph| graph.handle).collect();
        let node = Conditional {
            value,
            condition,
            graphs,
        };
        let index = self.graph_node(&graph, Work::Conditional(Arc::new(node)), &after);
        let added = graph.handles(&[index]);
        let node = *added.first().ok_or(CUresult::CUDA_ERROR_UNKNOWN)?;
        Ok((node, handles))
    }

    /// Works that set the values of conditional nodes, of a graph and of all
    /// graphs in it.
    fn values(&self, graph: &Graph) -> Vec<Work> {
        let set = |(to, value): &(u64, Option<u32>)| {
            value.map(|value| Work::WriteValue {
                to: *to,
                value: value.into(),
                wide: false,
            })
        };
        let mut works: Vec<Work> = graph.values.lock().iter().filter_map(set).collect();
        for node in graph.nodes.lock().iter() {
            if let Work::Conditional(node) = &node.work {
                works.extend(node.graphs.iter().flat_map(|body| self.values(body)));
            }
        }
        works
    }

    /// `cuGraphAddDependencies`, `cuGraphRemoveDependencies`
    pub fn graph_edge(&self, from: u64, to: u64, add: bool) -> Result<()> {
        let ((graph, from), (other, to)) = (self.node(from)?, self.node(to)?);
        if !Arc::ptr_eq(&graph, &other) || from == to {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut nodes = graph.nodes.lock();
        let changed = if add {
            nodes[to].after.insert(from)
        } else {
            nodes[to].after.remove(&from)
        };
        if changed {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    }

    /// `cuGraphDestroyNode`
    pub fn graph_remove(&self, node: u64) -> Result<()> {
        let (graph, index) = self.node(node)?;
        graph.nodes.lock()[index].alive = false;
        self.state.nodes.write().remove(&node);
        Ok(())
    }

    /// `cuGraphGetNodes`
    pub fn graph_nodes(&self, graph: u64) -> Result<Vec<u64>> {
        let graph = self.graph(graph)?;
        let nodes = graph.nodes.lock();
        Ok(nodes
            .iter()
            .filter(|node| node.alive)
            .map(|node| node.handle)
            .collect())
    }

    /// `cuGraphGetRootNodes`
    pub fn graph_roots(&self, graph: u64) -> Result<Vec<u64>> {
        let graph = self.graph(graph)?;
        let nodes = graph.nodes.lock();
        let root = |node: &&Node| node.alive && node.after.iter().all(|index| !nodes[*index].alive);
        Ok(nodes.iter().filter(root).map(|node| node.handle).collect())
    }

    /// `cuGraphGetEdges`: (from, to).
    pub fn graph_edges(&self, graph: u64) -> Result<Vec<(u64, u64)>> {
        let graph = self.graph(graph)?;
        let nodes = graph.nodes.lock();
        let mut edges = Vec::new();
        for node in nodes.iter().filter(|node| node.alive) {
            edges.extend(
                node.after
                    .iter()
                    .filter(|i| nodes[**i].alive)
                    .map(|i| (nodes[*i].handle, node.handle)),
            );
        }
        Ok(edges)
    }

    /// `cuGraphNodeGetType`
    pub fn node_kind(&self, node: u64) -> Result<NodeKind> {
        let (graph, index) = self.node(node)?;
        let nodes = graph.nodes.lock();
        Ok(kind(&nodes[index].work))
    }

    /// `cuGraphKernelNodeGetParams`
    pub fn node_launch(&self, node: u64) -> Result<Launch> {
        let (graph, index) = self.node(node)?;
        match &graph.nodes.lock()[index].work {
            Work::Kernel(call) => Ok(call.launch.clone()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// `cuGraphMemsetNodeGetParams`
    pub fn node_fill(&self, node: u64) -> Result<Fill> {
        let (graph, index) = self.node(node)?;
        match &graph.nodes.lock()[index].work {
            Work::Fill(fill) => Ok(*fill),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// `cuGraphMemcpyNodeGetParams`
    pub fn node_copy(&self, node: u64) -> Result<Copy> {
        let (graph, index) = self.node(node)?;
        match &graph.nodes.lock()[index].work {
            Work::Copy(copy) => Ok(*copy),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// `cuGraphMemFreeNodeGetParams`: what a node frees.
    pub fn node_release(&self, node: u64) -> Result<u64> {
        let (graph, index) = self.node(node)?;
        match &graph.nodes.lock()[index].work {
            Work::Release(address, _) => Ok(*address),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
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
        let mut nodes = graph.nodes.lock();
        if kind(&nodes[index].work) != kind(&work) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        nodes[index].work = work;
        Ok(())
    }

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
        let work = self.node_work(&keep_attributes(&old, to))?;
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

impl std::fmt::Debug for KernelCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelCall")
            .field("launch", &self.launch)
            .finish_non_exhaustive()
    }
}
