//! What the nodes of a graph do, as the device has them: what of it can be
//! planned again, and how the nodes hang together.
//!
//! A graph within a graph is read in a copy that Ringfence makes of it: nodes of
//! the copy can be given other parameters, and then the whole copy to the
//! instantiated graph, without a change to what is the program's.

use super::graph_memory;
use super::kernel_node::Kernel;
use super::launch::Arguments;
use super::{copy_shapes, set};
use crate::queries;
use crate::session::{self, next};
use crate::state::{Child, KernelNode, Node, Shape, Work};
use driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUfunction,
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphNodeType, CUkernel, CUresult,
};
use model::DeviceAddress;
use runtime::{Belongs, LaunchShape, Runtime, Side};
use std::collections::HashMap;

fn belongs(runtime: &Runtime, pointer: u64) -> (u64, Option<Belongs>) {
    (
        pointer,
        runtime.allocations().belongs_to(DeviceAddress(pointer)),
    )
}

impl KernelNode {
    fn uses(&self, runtime: &Runtime) -> Vec<(u64, Option<Belongs>)> {
        let pointer = |offset: &u32| {
            let start = *offset as usize;
            let bytes = self.block.get(start..start + 8)?;
            bytes.try_into().ok().map(u64::from_le_bytes)
        };
        let pointers = self.plan.roots.iter().filter_map(pointer);
        pointers.map(|pointer| belongs(runtime, pointer)).collect()
    }
}

impl Node {
    /// # Safety
    /// The arguments are those of the kernel with this handle.
    pub(super) unsafe fn kernel(
        runtime: &Runtime,
        handle: u64,
        function: u64,
        context: CUcontext,
        shape: LaunchShape,
        arguments: Arguments,
    ) -> Option<Node> {
        let known = runtime.modules().kernel(function)?;
        let plan = known.entry()?.clone();
        // SAFETY: the caller's word.
        let block = unsafe { arguments.copied(&plan) }?;
        let kernel = KernelNode {
            function,
            is_kernel: known.in_library(),
            context,
            shape,
            plan,
            block,
        };
        Some(Node::of(runtime, handle, Work::Kernel(Box::new(kernel))))
    }

    pub(super) fn call(runtime: &Runtime, handle: u64, sides: &[Side]) -> Node {
        Node::of(runtime, handle, Work::Call(sides.to_vec()))
    }

    fn of(runtime: &Runtime, handle: u64, work: Work) -> Node {
        let mut node = Node {
            handle,
            work,
            uses: Vec::new(),
            window: Default::default(),
            enabled: true,
            doubtful: false,
        };
        node.look(runtime);
        node
    }

    /// Notes what the pointers belong to now.
    pub(super) fn look(&mut self, runtime: &Runtime) {
        self.doubtful = false;
        self.window = runtime.launcher().shadow_window();
        self.uses = match &self.work {
            Work::Kernel(kernel) => kernel.uses(runtime),
            Work::Call(sides) => {
                let pointers = sides.iter().map(|side| side.touched.pointer);
                pointers.map(|pointer| belongs(runtime, pointer)).collect()
            }
        };
    }

    /// A node that was made at some time before, for memory that may have been
    /// freed since.
    fn made_before(mut self) -> Node {
        let is_of_nothing =
            |(pointer, memory): &(u64, Option<Belongs>)| *pointer != 0 && memory.is_none();
        self.doubtful = self.uses.iter().any(is_of_nothing);
        self
    }

    /// Whether a pointer belongs to something else than it did. Memory that a
    /// graph allocates is gone and there again as the graph says.
    pub(super) fn is_stale(&self, runtime: &Runtime) -> bool {
        let is_kernel = matches!(self.work, Work::Kernel(_));
        self.doubtful
            || (is_kernel && self.window != runtime.launcher().shadow_window())
            || self.uses.iter().any(|(pointer, then)| {
                let (_, now) = belongs(runtime, *pointer);
                let is_a_graphs =
                    then.is_some_and(|then| !then.is_own) && now.is_none_or(|now| !now.is_own);
                now != *then && !is_a_graphs
            })
    }
}

/// What of a graph's nodes can be looked at again.
#[derive(Default)]
pub(super) struct Scanned {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The graphs within the graph.
    pub children: Vec<Child>,
}

impl Scanned {
    /// Whether there is something that needs the handles of the nodes.
    pub(super) fn needs_handles(&self) -> bool {
        let is_kernel = |node: &Node| matches!(node.work, Work::Kernel(_));
        !self.children.is_empty() || self.nodes.iter().any(is_kernel)
    }

    /// Whether a node must be looked at before the first launch.
    pub(super) fn is_doubtful(&self) -> bool {
        let children = self.children.iter().flat_map(|child| &child.nodes);
        self.nodes.iter().chain(children).any(|node| node.doubtful)
    }

    /// The same, with other handles for the nodes; without them, what needs none.
    /// The copies of graphs that are not among it go to `unused`.
    pub(super) fn renamed(
        mut self,
        handles: Option<&HashMap<u64, u64>>,
        unused: &mut Vec<Child>,
    ) -> Scanned {
        let Some(handles) = handles else {
            unused.append(&mut self.children);
            self.nodes.retain(|node| matches!(node.work, Work::Call(_)));
            return self;
        };
        self.nodes.retain_mut(|node| {
            let other = handles.get(&node.handle);
            node.handle = other.copied().unwrap_or_default();
            other.is_some()
        });
        let (mut kept, lost): (Vec<_>, Vec<_>) = self
            .children
            .into_iter()
            .partition(|child| handles.contains_key(&child.handle));
        for child in &mut kept {
            child.handle = handles.get(&child.handle).copied().unwrap_or_default();
        }
        unused.extend(lost);
        Scanned {
            nodes: self.nodes,
            children: kept,
        }
    }
}

/// Reads a graph's nodes.
pub(super) fn scan(runtime: &Runtime, graph: CUgraph) -> Scanned {
    let mut functions = Functions::default();
    let mut scanned = Scanned::default();
    scanned.nodes = nodes(runtime, graph, &mut functions, &mut |node, inner| {
        scanned
            .children
            .extend(copied(runtime, node, inner, &mut Functions::default()));
    });
    scanned
}

/// A graph within another, as its node has it now.
pub(super) fn child(runtime: &Runtime, node: CUgraphNode, inner: CUgraph) -> Option<Child> {
    copied(runtime, node, inner, &mut Functions::default())
}

/// Copies the graph of a node, and reads the copy with all graphs within it;
/// `None` if it has nothing that can be planned again.
fn copied(
    runtime: &Runtime,
    node: CUgraphNode,
    inner: CUgraph,
    functions: &mut Functions,
) -> Option<Child> {
    // What a graph owns is the program's to give back, and not for a copy to keep.
    if session::get()?.replays.has_owners() {
        return None;
    }
    let mut copy = CUgraph::NULL;
    // SAFETY: a graph of the program's; a place for the answer.
    if unsafe { next()?.cuGraphClone?(&mut copy, inner) } != CUresult::CUDA_SUCCESS {
        return None;
    }
    let mut within = vec![copy];
    let mut found = Vec::new();
    while let Some(graph) = within.pop() {
        found.extend(nodes(runtime, graph, functions, &mut |_, inner| {
            within.push(inner);
        }));
    }
    let child = Child {
        handle: node.0,
        copy: copy.0,
        nodes: found,
    };
    if child.nodes.is_empty() {
        destroy_copy(child);
        return None;
    }
    Some(child)
}

/// A copy is not needed any more.
pub(super) fn destroy_copy(child: Child) {
    if let Some(destroy) = next().and_then(|api| api.cuGraphDestroy) {
        // SAFETY: a graph that was made here. A failure leaves what has no owner.
        let _ = unsafe { destroy(CUgraph(child.copy)) };
    }
}

/// The nodes of one graph that can be planned again. `inner` is called with each
/// node that is a graph, and with that graph.
fn nodes(
    runtime: &Runtime,
    graph: CUgraph,
    functions: &mut Functions,
    inner: &mut dyn FnMut(CUgraphNode, CUgraph),
) -> Vec<Node> {
    let Some(api) = next() else {
        return Vec::new();
    };
    let look = |node: CUgraphNode| {
        // SAFETY: a node of the graph, and places for the answers. The pointers
        // in an answer are the device's, and good while the node is as it is.
        unsafe {
            match kind_of(node)? {
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => {
                    let mut how = CUDA_KERNEL_NODE_PARAMS::zeroed();
                    let result = api.cuGraphKernelNodeGetParams_v2?(node, &mut how);
                    if result != CUresult::CUDA_SUCCESS {
                        return None;
                    }
                    let function = functions.of_program(how.kern.0, how.func.0)?;
                    Node::kernel(
                        runtime,
                        node.0,
                        function,
                        how.ctx,
                        how.shape(),
                        how.arguments(),
                    )
                }
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY => {
                    let mut how = CUDA_MEMCPY3D::zeroed();
                    let result = api.cuGraphMemcpyNodeGetParams?(node, &mut how);
                    (result == CUresult::CUDA_SUCCESS)
                        .then(|| Node::call(runtime, node.0, &copy_shapes::node(&raw const how)))
                }
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => {
                    let mut how = CUDA_MEMSET_NODE_PARAMS::zeroed();
                    let result = api.cuGraphMemsetNodeGetParams?(node, &mut how);
                    (result == CUresult::CUDA_SUCCESS)
                        .then(|| Node::call(runtime, node.0, &set::node(&how)))
                }
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH => {
                    let mut within = CUgraph::NULL;
                    let result = api.cuGraphChildGraphNodeGetGraph?(node, &mut within);
                    if result == CUresult::CUDA_SUCCESS {
                        inner(node, within);
                    }
                    None
                }
                _ => None,
            }
        }
    };
    let handles = graph_memory::nodes_of(graph).into_iter();
    handles.filter_map(look).map(Node::made_before).collect()
}

fn kind_of(node: CUgraphNode) -> Option<CUgraphNodeType> {
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: a node of a graph, and a place for the answer.
    let result = unsafe { next()?.cuGraphNodeGetType?(node, &mut kind) };
    (result == CUresult::CUDA_SUCCESS).then_some(kind)
}

/// How the nodes of a graph hang together, in the device's own order; `None` if
/// it does not say.
pub(super) fn shape(graph: CUgraph) -> Option<Shape> {
    let nodes = graph_memory::nodes_of(graph);
    let kinds = nodes.iter().map(|node| kind_of(*node));
    let kinds = kinds.collect::<Option<Vec<_>>>()?;
    let place: HashMap<u64, usize> = nodes.iter().map(|node| node.0).zip(0..).collect();
    let edges = edges_of(graph)?.into_iter();
    let edges = edges.map(|(from, to)| Some((*place.get(&from.0)?, *place.get(&to.0)?)));
    Some(Shape {
        handles: nodes.iter().map(|node| node.0).collect(),
        kinds,
        edges: edges.collect::<Option<_>>()?,
    })
}

fn edges_of(graph: CUgraph) -> Option<Vec<(CUgraphNode, CUgraphNode)>> {
    let api = next()?;
    let mut count = 0;
    let none = std::ptr::null_mut();
    let no_data = std::ptr::null_mut();
    // SAFETY: a graph; without places for edges, only their number is asked.
    let result = unsafe {
        match (api.cuGraphGetEdges_v2, api.cuGraphGetEdges) {
            (Some(edges), _) => edges(graph, none, none, no_data, &mut count),
            (None, edges) => edges?(graph, none, none, &mut count),
        }
    };
    if result != CUresult::CUDA_SUCCESS {
        return None;
    }
    let mut from = vec![CUgraphNode::NULL; count];
    let mut to = from.clone();
    let mut data = vec![CUgraphEdgeData::zeroed(); count];
    let (starts, ends) = (from.as_mut_ptr(), to.as_mut_ptr());
    // SAFETY: room for as many edges as there are.
    let result = unsafe {
        match (api.cuGraphGetEdges_v2, api.cuGraphGetEdges) {
            (Some(edges), _) => edges(graph, starts, ends, data.as_mut_ptr(), &mut count),
            (None, edges) => edges?(graph, starts, ends, &mut count),
        }
    };
    (result == CUresult::CUDA_SUCCESS).then(|| from.into_iter().zip(to).take(count).collect())
}

/// The program's own functions, where nodes name instrumented copies, or the
/// functions that kernels are in a context.
#[derive(Default)]
struct Functions {
    /// By function in the current context; asked for when one is not known.
    in_context: Option<HashMap<u64, u64>>,
}

impl Functions {
    fn of_program(&mut self, kernel: u64, function: u64) -> Option<u64> {
        let known = |handle: u64| {
            queries::original(handle).or_else(|| Some(queries::kernel(handle)?.handle()))
        };
        let handles = [kernel, function].into_iter().filter(|handle| *handle != 0);
        if let Some(found) = handles.clone().find_map(known) {
            return Some(found);
        }
        let in_context = self.in_context.get_or_insert_with(in_context);
        handles
            .into_iter()
            .find_map(|handle| in_context.get(&handle).copied())
    }
}

/// The program's kernels by what they and their copies are in this context.
fn in_context() -> HashMap<u64, u64> {
    let mut functions = HashMap::new();
    let Some(get) = next().and_then(|api| api.cuKernelGetFunction) else {
        return functions;
    };
    let kernels = session::runtime().map(|runtime| runtime.modules().library_kernels());
    for known in kernels.unwrap_or_default() {
        let program = known.handle();
        for kernel in std::iter::once(program).chain(known.copies().all()) {
            let mut function = CUfunction::NULL;
            // SAFETY: a kernel of a library that is loaded; a place for the
            // answer.
            if unsafe { get(&mut function, CUkernel(kernel)) } == CUresult::CUDA_SUCCESS {
                functions.insert(function.0, program);
            }
        }
    }
    functions
}
