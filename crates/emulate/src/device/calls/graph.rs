//! Graphs: create, clone, change, query.

use crate::device::basics::Result;
use crate::device::objects::graph::{GraphNode, NodeKind, graphs_of, kind};
use crate::device::objects::work::{Condition, Conditional, Work};
use crate::device::objects::work::{Graph, Node};
use crate::device::state::Device;
use driver::sys::CUresult;
use model::AllocationKind;
use parking_lot::Mutex;
use std::sync::Arc;

impl Device {
    pub(crate) fn graph(&self, handle: u64) -> Result<Arc<Graph>> {
        self.state
            .graphs
            .read()
            .get(&handle)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    pub(crate) fn node(&self, handle: u64) -> Result<(Arc<Graph>, usize)> {
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
            objects: Mutex::default(),
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
        let mut owned = Vec::new();
        let mut known = self.state.nodes.write();
        for node in graph.nodes.lock().iter() {
            known.remove(&node.handle);
            owned.extend(graphs_of(&node.work));
        }
        drop(known);
        self.destroy_owned(owned);
        let held = std::mem::take(&mut *graph.objects.lock());
        for (object, count) in held {
            // An object that the program released too often is gone already.
            let _ = self.user_object_release(object, count);
        }
        Ok(())
    }

    /// The node that these graphs belong to is gone.
    pub(crate) fn destroy_owned(&self, graphs: Vec<u64>) {
        for graph in graphs {
            // A clone of the graph may have had the node, too.
            let _ = self.graph_destroy(graph);
        }
    }

    /// `cuGraphClone`
    pub fn graph_clone(&self, handle: u64) -> Result<u64> {
        Ok(self.cloned(&*self.graph(handle)?)?.handle)
    }

    fn cloned(&self, original: &Graph) -> Result<Arc<Graph>> {
        let copy = self.graph(self.graph_create()?)?;
        let nodes: Vec<_> = original
            .nodes
            .lock()
            .iter()
            .map(|n| (n.work.clone(), n.after.clone(), n.alive))
            .collect();
        for (work, after, alive) in nodes {
            let work = self.owned(work)?;
            let index = self.graph_node(&copy, work, &after.into_iter().collect::<Vec<_>>());
            copy.nodes.lock()[index].alive = alive;
        }
        let objects = original.objects.lock().clone();
        for (object, count) in objects {
            // (One that the program has released too often is gone already.)
            if self.user_object_retain(object, count).is_ok() {
                copy.objects.lock().insert(object, count);
            }
        }
        Ok(copy)
    }

    /// Work for a node: a child graph becomes a copy of the node's own.
    pub(crate) fn owned(&self, work: Work) -> Result<Work> {
        Ok(match work {
            Work::Child(graph) => Work::Child(self.cloned(&graph)?),
            work => work,
        })
    }

    pub(crate) fn node_work(&self, node: &GraphNode) -> Result<Work> {
        Ok(match node {
            GraphNode::Kernel(launch) => Work::Kernel(Arc::new(self.kernel_call(launch.clone())?)),
            GraphNode::Copy(copy) => self.checked(*copy)?.map_or(Work::Nothing, Work::Copy),
            GraphNode::Fill(fill) => self.checked_fill(*fill)?.map_or(Work::Nothing, Work::Fill),
            GraphNode::Host(function) => Work::Host(function.clone()),
            GraphNode::Child(graph) => {
                let graph = self.graph(*graph)?;
                graph.sorted().ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
                Work::Child(graph)
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
        let work = self.owned(self.node_work(node)?)?;
        let index = self.graph_node(&graph, work, &after);
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
    pub(crate) fn values(&self, graph: &Graph) -> Vec<Work> {
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
        let owned = {
            let removed = &mut graph.nodes.lock()[index];
            removed.alive = false;
            graphs_of(&removed.work)
        };
        self.state.nodes.write().remove(&node);
        self.destroy_owned(owned);
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
}
