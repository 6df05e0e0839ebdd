//! Graphs. They are kept in this process: the manager sees only the launches,
//! copies and memsets that a launch of a graph makes, and checks each as any
//! other.

mod executable;
mod generic;
pub(crate) mod lent;
pub(crate) mod memory;
mod nodes;
mod objects;
mod whole;

use crate::convert::Answer;
use crate::link::Link;
use crate::state::enter;
use crate::work::Work;
use driver::graphs::{self, Shape};
use driver::sys::CUresult;
use executable::Executable;
use lent::Lent;
use memory::GraphMemory;
use objects::Objects;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// A node of a graph.
pub(crate) struct Node {
    handle: u64,
    work: Work,
    after: BTreeSet<usize>,
    /// False once destroyed: positions of the others must not move.
    is_alive: bool,
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) handle: u64,
    nodes: Mutex<Vec<Node>>,
    /// References to user objects that the graph holds, by object.
    objects: Mutex<BTreeMap<u64, u32>>,
}

/// All graphs of the program.
#[derive(Default)]
pub(crate) struct Graphs {
    all: Mutex<BTreeMap<u64, Arc<Graph>>>,
    /// Nodes by handle: the graph and the position.
    nodes: Mutex<BTreeMap<u64, (Arc<Graph>, usize)>>,
    executables: Mutex<BTreeMap<u64, Arc<Executable>>>,
    /// What allocation nodes allocate, by first address.
    memory: Mutex<BTreeMap<u64, Weak<GraphMemory>>>,
    objects: Objects,
    lent: Lent,
}

impl Graph {
    /// Nodes that the given ones depend on, with themselves.
    pub(crate) fn ancestors(&self, of: &[usize]) -> BTreeSet<usize> {
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
    pub(crate) fn handles(&self, positions: &[usize]) -> Vec<u64> {
        let nodes = self.nodes.lock();
        let found = positions.iter().filter_map(|index| nodes.get(*index));
        found.map(|node| node.handle).collect()
    }

    /// Live nodes in an order that respects the edges; `None` if they form a
    /// cycle.
    fn sorted(&self) -> Option<Vec<(u64, Work)>> {
        let nodes = self.nodes.lock();
        let order = graphs::order(&nodes)?;
        let all = order.iter().map(|index| &nodes[*index]);
        Some(all.map(|node| (node.handle, node.work.clone())).collect())
    }

    /// How its nodes stand among each other; `None` if there is a cycle, also within a
    /// child graph.
    fn shape(&self) -> Option<Vec<Shape>> {
        graphs::shape(&self.nodes.lock(), |node| match &node.work {
            Work::Child(graph) => graph.shape(),
            _ => Some(Vec::new()),
        })
    }
}

impl graphs::Node for Node {
    fn is_alive(&self) -> bool {
        self.is_alive
    }

    fn after(&self) -> &BTreeSet<usize> {
        &self.after
    }
}

/// The handle of the graph that belongs to a node.
fn graph_of(work: &Work) -> Option<u64> {
    match work {
        Work::Child(graph) => Some(graph.handle),
        _ => None,
    }
}

/// A new, empty graph.
pub(crate) fn create(link: &Link) -> Result<Arc<Graph>, CUresult> {
    enter(link)?;
    let graph = Arc::new(Graph {
        handle: link.state.handle(),
        nodes: Mutex::default(),
        objects: Mutex::default(),
    });
    let known = Arc::clone(&graph);
    link.state.graphs.all.lock().insert(graph.handle, known);
    Ok(graph)
}

/// The graph of a handle.
pub(crate) fn find(link: &Link, handle: u64) -> Result<Arc<Graph>, CUresult> {
    let all = link.state.graphs.all.lock();
    all.get(&handle).cloned().ok_or(INVALID)
}

/// The graph and the position of a node.
fn node(link: &Link, handle: u64) -> Result<(Arc<Graph>, usize), CUresult> {
    let nodes = link.state.graphs.nodes.lock();
    nodes.get(&handle).cloned().ok_or(INVALID)
}

/// Positions of nodes of a graph.
pub(crate) fn positions(
    link: &Link,
    graph: &Arc<Graph>,
    handles: &[u64],
) -> Result<Vec<usize>, CUresult> {
    let position = |handle: &u64| {
        let (owner, index) = node(link, *handle)?;
        match Arc::ptr_eq(&owner, graph) {
            true => Ok(index),
            false => Err(INVALID),
        }
    };
    handles.iter().map(position).collect()
}

/// Adds a node; its position.
pub(crate) fn add_at(link: &Link, graph: &Arc<Graph>, work: Work, after: &[usize]) -> usize {
    let handle = link.state.handle();
    let mut nodes = graph.nodes.lock();
    let index = nodes.len();
    nodes.push(Node {
        handle,
        work,
        after: after.iter().copied().collect(),
        is_alive: true,
    });
    drop(nodes);
    let place = (Arc::clone(graph), index);
    link.state.graphs.nodes.lock().insert(handle, place);
    index
}

/// Adds a node; its handle.
fn add(link: &Link, graph: u64, work: Work, after: &[u64]) -> Result<u64, CUresult> {
    enter(link)?;
    let graph = find(link, graph)?;
    let after = positions(link, &graph, after)?;
    let index = add_at(link, &graph, owned(link, work)?, &after);
    graph.handles(&[index]).first().copied().ok_or(INVALID)
}

/// Work for a node: a child graph becomes a copy of the node's own.
fn owned(link: &Link, work: Work) -> Result<Work, CUresult> {
    Ok(match work {
        Work::Child(graph) => Work::Child(cloned(link, &graph)?),
        work => work,
    })
}

fn cloned(link: &Link, original: &Graph) -> Result<Arc<Graph>, CUresult> {
    let copy = create(link)?;
    let nodes = original.nodes.lock();
    let nodes: Vec<_> = nodes
        .iter()
        .map(|node| (node.work.clone(), node.after.clone(), node.is_alive))
        .collect();
    for (work, after, is_alive) in nodes {
        let work = owned(link, work)?;
        let after: Vec<usize> = after.into_iter().collect();
        let index = add_at(link, &copy, work, &after);
        copy.nodes.lock()[index].is_alive = is_alive;
    }
    let held = original.objects.lock().clone();
    for (object, count) in held {
        // (One that the program has released too often is gone already.)
        if objects::retain(link, object, count).is_ok() {
            copy.objects.lock().insert(object, count);
        }
    }
    Ok(copy)
}

fn destroy(link: &Link, handle: u64) -> Answer {
    let removed = link.state.graphs.all.lock().remove(&handle);
    let graph = removed.ok_or(INVALID)?;
    let mut children = Vec::new();
    let nodes = std::mem::take(&mut *graph.nodes.lock());
    for node in &nodes {
        link.state.graphs.nodes.lock().remove(&node.handle);
        link.state.graphs.lent.forget(node.handle);
        children.extend(graph_of(&node.work));
    }
    for child in children {
        // It may have been destroyed by the program, which it must not.
        let _ = destroy(link, child);
    }
    // Memory of its allocation nodes goes, if no other graph has them.
    drop(nodes);
    let held = std::mem::take(&mut *graph.objects.lock());
    for (object, count) in held {
        // An object that the program released too often is gone already.
        let _ = objects::release(link, object, count);
    }
    Ok(())
}

/// Adds or removes an edge.
fn change_edge(link: &Link, from: u64, to: u64, is_added: bool) -> Answer {
    let ((graph, from), (other, to)) = (node(link, from)?, node(link, to)?);
    if !Arc::ptr_eq(&graph, &other) || from == to {
        return Err(INVALID);
    }
    let mut nodes = graph.nodes.lock();
    let after = &mut nodes[to].after;
    let is_changed = match is_added {
        true => after.insert(from),
        false => after.remove(&from),
    };
    is_changed.then_some(()).ok_or(INVALID)
}

fn remove(link: &Link, handle: u64) -> Answer {
    let (graph, index) = node(link, handle)?;
    let child = {
        let removed = &mut graph.nodes.lock()[index];
        removed.is_alive = false;
        graph_of(&removed.work)
    };
    link.state.graphs.nodes.lock().remove(&handle);
    child.map_or(Ok(()), |child| destroy(link, child))
}

/// What a node's work says; INVALID_VALUE for a node of another kind.
fn of_node<T>(
    link: &Link,
    handle: u64,
    read: impl FnOnce(&Work) -> Option<T>,
) -> Result<T, CUresult> {
    let (graph, index) = node(link, handle)?;
    let nodes = graph.nodes.lock();
    let found = nodes.get(index);
    found.and_then(|node| read(&node.work)).ok_or(INVALID)
}

/// `cuGraphKernelNodeSetParams` and kin.
fn set(link: &Link, handle: u64, to: Work) -> Answer {
    let (graph, index) = node(link, handle)?;
    let old = graph.nodes.lock()[index].work.clone();
    let work = keep_attributes(&old, to);
    if executable::kind(&old) != executable::kind(&work) {
        return Err(INVALID);
    }
    let work = owned(link, work)?;
    graph.nodes.lock()[index].work = work;
    graph_of(&old).map_or(Ok(()), |child| destroy(link, child))
}

/// New parameters of a kernel node leave its attributes as they are.
fn keep_attributes(old: &Work, new: Work) -> Work {
    match (old, new) {
        (Work::Kernel(old), Work::Kernel(new)) => {
            let mut launch = (*new).clone();
            launch.is_cooperative = old.is_cooperative;
            Work::Kernel(Arc::new(launch))
        }
        (_, new) => new,
    }
}

/// The context was reset.
pub(crate) fn forget(link: &Link) {
    let graphs = &link.state.graphs;
    graphs.memory.lock().clear();
    graphs.executables.lock().clear();
    graphs.nodes.lock().clear();
    graphs.all.lock().clear();
}

/// Enters the functions of this folder into the table.
pub(crate) fn register(api: &mut driver::Api) {
    whole::register(api);
    nodes::register(api);
    generic::register(api);
}
