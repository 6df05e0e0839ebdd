//! Instantiated graphs: what their nodes use, and whether that is still there
//! when they are launched again.
//!
//! A kernel in a graph carries the bounds that its pointers had when the node
//! was made. When memory has come or gone since, the node is planned again as a
//! launch of today is, and gets the checked kernel with today's bounds: an
//! access to memory that was freed is found where it is made, and a pointer
//! that the kernel does not use is no error. Copies and memsets are checked against the
//! memory of today before the launch.
//!
//! The device takes a node's new parameters by its handle in the graph, so a
//! graph that the program destroys is kept until what it became is destroyed
//! too. Graphs that were updated as a whole, graphs within graphs, and graphs
//! for launches by the device are left as they are.

use super::copy::checked;
use super::define::{hook, hooks};
use super::kernel_node::Kernel;
use super::launch::{Arguments, launch};
use super::watch::{self, What};
use super::{copy_shapes, graph_memory, set, streams};
use crate::process;
use crate::queries::{self, is_capturing};
use crate::session::{self, next};
use crate::state::{Destroyed, Executable, GraphMemory, KernelNode, Node, Replays, Work};
use crate::timing::{self, Timed};
use driver::sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUfunction, CUgraph, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphInstantiate_flags, CUgraphNode, CUgraphNodeType, CUkernel,
    CUresult, CUstream, CUuserObject,
};
use model::DeviceAddress;
use runtime::{Belongs, LaunchShape, Ordering, Runtime, Side, When};
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

hooks!(
    cuGraphDestroy,
    cuGraphDestroyNode,
    cuGraphExecDestroy,
    cuGraphExecUpdate,
    cuGraphExecUpdate_v2,
    cuGraphInstantiate,
    cuGraphInstantiate_v2,
    cuGraphInstantiateWithFlags,
    cuGraphInstantiateWithParams,
    cuGraphInstantiateWithParams_ptsz,
    cuGraphLaunch,
    cuGraphLaunch_ptsz,
    cuGraphNodeSetEnabled,
    cuGraphRetainUserObject,
);

fn replays() -> Option<&'static Replays> {
    Some(&session::get()?.replays)
}

fn watched() -> Option<&'static Runtime> {
    session::runtime().filter(|runtime| runtime.env().settings().check)
}

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

    /// Plans the node for a launch of today.
    fn renew(&mut self, exec: CUgraphExec, node: u64, stream: (CUstream, bool)) -> CUresult {
        let Some(set) = next().and_then(|api| api.cuGraphExecKernelNodeSetParams_v2) else {
            return CUresult::CUDA_ERROR_NOT_SUPPORTED;
        };
        let start = self.block.as_mut_ptr();
        let mut pointers: Vec<*mut c_void> = self
            .plan
            .parameters
            .iter()
            .map(|slot| start.wrapping_add(slot.offset as usize).cast())
            .collect();
        let arguments = Arguments {
            pointers: pointers.as_mut_ptr(),
            extra: std::ptr::null_mut(),
        };
        let shape = self.shape;
        let place = |function: u64, pointers, extra| {
            let (func, kern) = match self.is_kernel {
                true => (CUfunction::NULL, CUkernel(function)),
                false => (CUfunction(function), CUkernel::NULL),
            };
            let parameters = CUDA_KERNEL_NODE_PARAMS {
                func,
                gridDimX: shape.grid[0],
                gridDimY: shape.grid[1],
                gridDimZ: shape.grid[2],
                blockDimX: shape.block[0],
                blockDimY: shape.block[1],
                blockDimZ: shape.block[2],
                sharedMemBytes: shape.shared,
                kernelParams: pointers,
                extra,
                kern,
                ctx: self.context,
            };
            // SAFETY: a node of the graph that this was made of, which is kept;
            // the parameters are those of the function.
            unsafe { set(exec, CUgraphNode(node), &raw const parameters) }
        };
        // SAFETY: the parameters that the node was given for this function.
        unsafe { launch(self.function, shape, arguments, Some(stream), place) }
    }
}

impl Node {
    /// # Safety
    /// The arguments are those of the kernel with this handle.
    unsafe fn kernel(
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
        Some(Node {
            handle,
            uses: kernel.uses(runtime),
            work: Work::Kernel(Box::new(kernel)),
            enabled: true,
        })
    }

    fn call(runtime: &Runtime, handle: u64, sides: &[Side]) -> Node {
        let mut node = Node {
            handle,
            work: Work::Call(sides.to_vec()),
            uses: Vec::new(),
            enabled: true,
        };
        node.look(runtime);
        node
    }

    /// Notes what the pointers belong to now.
    fn look(&mut self, runtime: &Runtime) {
        self.uses = match &self.work {
            Work::Kernel(kernel) => kernel.uses(runtime),
            Work::Call(sides) => {
                let pointers = sides.iter().map(|side| side.touched.pointer);
                pointers.map(|pointer| belongs(runtime, pointer)).collect()
            }
        };
    }

    /// Whether a pointer belongs to something else than it did. Memory that a
    /// graph allocates is gone and there again as the graph says.
    fn is_stale(&self, runtime: &Runtime) -> bool {
        self.uses.iter().any(|(pointer, then)| {
            let (_, now) = belongs(runtime, *pointer);
            let is_a_graphs =
                then.is_some_and(|then| !then.is_own) && now.is_none_or(|now| !now.is_own);
            now != *then && !is_a_graphs
        })
    }
}

impl Executable {
    /// Plans anew what needs it. Returns the answer for the program if the
    /// graph is not to be launched.
    fn renew(
        &mut self,
        runtime: &Runtime,
        exec: CUgraphExec,
        stream: (CUstream, bool),
    ) -> Option<CUresult> {
        let stale = |node: &&mut Node| node.enabled && node.is_stale(runtime);
        for node in self.nodes.iter_mut().filter(stale) {
            match &mut node.work {
                Work::Kernel(kernel) => {
                    let result = kernel.renew(exec, node.handle, stream);
                    if result != CUresult::CUDA_SUCCESS {
                        let message = format!(
                            "a kernel of a graph kept the bounds of memory that has come or gone since ({result:?}): \
                             uses of what was freed are not found there"
                        );
                        runtime.env().error(&message, false);
                    }
                }
                Work::Call(sides) => {
                    let result = checked("cuGraphLaunch", When::Last, sides, || {
                        CUresult::CUDA_SUCCESS
                    });
                    if result != CUresult::CUDA_SUCCESS {
                        return Some(result);
                    }
                }
            }
            node.look(runtime);
        }
        None
    }
}

/// What of a graph's nodes can be looked at again.
fn scan(runtime: &Runtime, graph: CUgraph, kernels: bool) -> Vec<Node> {
    let Some(api) = next() else {
        return Vec::new();
    };
    let Some(kind_of) = api.cuGraphNodeGetType else {
        return Vec::new();
    };
    let handles = graph_memory::nodes_of(graph);
    let mut functions = Functions::default();
    let look = |node: CUgraphNode| {
        let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: a node of the graph, and places for the answers. The pointers
        // in an answer are the device's, and good while the node is as it is.
        unsafe {
            if kind_of(node, &mut kind) != CUresult::CUDA_SUCCESS {
                return None;
            }
            match kind {
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL if kernels => {
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
                _ => None,
            }
        }
    };
    handles.into_iter().filter_map(look).collect()
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

fn instantiated(
    result: CUresult,
    exec: *const CUgraphExec,
    graph: CUgraph,
    flags: u64,
) -> CUresult {
    let by_device = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0;
    if result == CUresult::CUDA_SUCCESS
        && !exec.is_null()
        && flags & by_device as u64 == 0
        && let (Some(runtime), Some(replays)) = (watched(), replays())
    {
        // SAFETY: written by a successful call.
        let exec = unsafe { *exec };
        let generation = runtime.allocations().generation();
        let nodes = scan(runtime, graph, true);
        let has_kernels = nodes
            .iter()
            .any(|node| matches!(node.work, Work::Kernel(_)));
        let executable = Executable {
            nodes,
            generation,
            graph: has_kernels.then_some(graph.0),
            memory: Arc::new(graph_memory::of(runtime, graph)),
        };
        replays.add(exec.0, executable);
    }
    result
}

/// A graph is not needed any more, by one.
fn release(graph: u64) {
    let gone = replays().is_some_and(|replays| replays.release(graph));
    if gone && let Some(destroy) = next().and_then(|api| api.cuGraphDestroy) {
        // SAFETY: the program has destroyed it, and nothing needs it. A failure
        // leaves what has no owner.
        let _ = unsafe { destroy(CUgraph(graph)) };
    }
}

/// Changes what is known of an instantiated graph.
fn with(exec: CUgraphExec, change: impl FnOnce(&mut Executable)) {
    if let Some(replays) = replays() {
        replays.change(exec.0, change);
    }
}

/// A node of an instantiated graph has other work now; `None`: not known.
fn replaced(exec: CUgraphExec, handle: u64, node: Option<Node>) {
    with(exec, |executable| {
        let place = executable
            .nodes
            .iter_mut()
            .find(|node| node.handle == handle);
        match (place, node) {
            (Some(old), Some(new)) => {
                let enabled = old.enabled;
                *old = Node { enabled, ..new };
            }
            (None, Some(new)) => executable.nodes.push(new),
            (_, None) => executable.nodes.retain(|node| node.handle != handle),
        }
    });
}

/// The program has given a kernel node of an instantiated graph its parameters.
///
/// # Safety
/// The parameters are those of the kernel that they name.
pub(super) unsafe fn kernel_set<K: Kernel>(exec: CUgraphExec, node: CUgraphNode, parameters: &K) {
    let Some(runtime) = watched() else { return };
    let (function, context) = (parameters.handle(), parameters.context());
    let (shape, arguments) = (parameters.shape(), parameters.arguments());
    // SAFETY: the caller's word.
    let new = unsafe { Node::kernel(runtime, node.0, function, context, shape, arguments) };
    replaced(exec, node.0, new);
}

/// The same of a copy or set.
pub(super) fn call_set(exec: CUgraphExec, node: CUgraphNode, sides: &[Side]) {
    if let Some(runtime) = watched() {
        replaced(exec, node.0, Some(Node::call(runtime, node.0, sides)));
    }
}

hook!([cuGraphInstantiate, cuGraphInstantiate_v2](
    exec: *mut CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    log: *mut c_char,
    size: usize,
) |instantiate| {
    // SAFETY: the program's arguments.
    instantiated(unsafe { instantiate(exec, graph, node, log, size) }, exec, graph, 0)
});

hook!(cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64) |instantiate| {
    // SAFETY: the program's arguments.
    instantiated(unsafe { instantiate(exec, graph, flags) }, exec, graph, flags)
});

hook!([cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz](
    exec: *mut CUgraphExec,
    graph: CUgraph,
    parameters: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
) |instantiate| {
    // SAFETY: the program's arguments.
    unsafe {
        let flags = parameters.as_ref().map_or(0, |parameters| parameters.flags);
        instantiated(instantiate(exec, graph, parameters), exec, graph, flags)
    }
});

hook!([cuGraphLaunch, cuGraphLaunch_ptsz](exec: CUgraphExec, stream: CUstream) |launch| {
    if let Some(refused) = launching(exec, (stream, PER_THREAD)) {
        return refused;
    }
    let result = watch::around(What::Graph, Some((stream, PER_THREAD)), || {
        timing::around(Timed::Graph(exec.0), Some((stream, PER_THREAD)), || {
            // SAFETY: the program's arguments.
            unsafe { launch(exec, stream) }
        })
    });
    if result == CUresult::CUDA_SUCCESS && let Some(runtime) = session::runtime() {
        if !is_capturing() {
            runtime.launcher().graph_made(streams::name(runtime, stream, PER_THREAD));
            if let Some(memory) = memory_of(exec) {
                graph_memory::launched(runtime, &memory, (stream, PER_THREAD));
            }
        }
        let place = streams::place(runtime, stream, PER_THREAD);
        runtime.launcher().graph_launched(place);
    }
    result
});

/// What a launch allocates and frees, if that is known.
fn memory_of(exec: CUgraphExec) -> Option<Arc<GraphMemory>> {
    let mut memory = None;
    with(exec, |executable| memory = Some(executable.memory.clone()));
    memory
}

fn launching(exec: CUgraphExec, stream: (CUstream, bool)) -> Option<CUresult> {
    let runtime = session::runtime()?;
    process::device_in_use();
    // It may record events, and wait for some.
    runtime.streams().ordered(Ordering::Graph);
    runtime.launcher().graph_launching();
    if let Some(memory) = memory_of(exec) {
        graph_memory::launching(runtime, &memory);
    }
    if is_capturing() {
        return None;
    }
    let generation = runtime.allocations().generation();
    let replays = replays()?;
    let mut executable = replays.take_stale(exec.0, generation)?;
    let refused = executable.renew(runtime, exec, stream);
    if refused.is_none() {
        executable.generation = generation;
    }
    replays.put_back(exec.0, executable);
    refused
}

hook!(cuGraphExecDestroy(exec: CUgraphExec) |destroy| {
    timing::forget_graph(exec.0);
    let known = replays().and_then(|replays| replays.remove(exec.0));
    // SAFETY: the program's arguments.
    let result = unsafe { destroy(exec) };
    if let Some(graph) = known.and_then(|executable| executable.graph) {
        release(graph);
    }
    result
});

/// The nodes of an instantiated graph have the work of another graph's, whose
/// handles are of no use.
fn updated(result: CUresult, exec: CUgraphExec, graph: CUgraph) -> CUresult {
    let is_known = replays().is_some_and(|replays| replays.contains(exec.0));
    if is_known && let Some(runtime) = watched() {
        let nodes = match result {
            CUresult::CUDA_SUCCESS => scan(runtime, graph, false),
            _ => Vec::new(),
        };
        let mut needed = None;
        with(exec, |executable| {
            executable.nodes = nodes;
            needed = executable.graph.take();
        });
        if let Some(graph) = needed {
            release(graph);
        }
    }
    result
}

hook!(cuGraphExecUpdate(
    exec: CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    answer: *mut CUgraphExecUpdateResult,
) |update| {
    // SAFETY: the program's arguments.
    updated(unsafe { update(exec, graph, node, answer) }, exec, graph)
});

hook!(cuGraphExecUpdate_v2(exec: CUgraphExec, graph: CUgraph, answer: *mut CUgraphExecUpdateResultInfo) |update| {
    // SAFETY: the program's arguments.
    updated(unsafe { update(exec, graph, answer) }, exec, graph)
});

hook!(cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: u32) |enable| {
    // SAFETY: the program's arguments.
    let result = unsafe { enable(exec, node, enabled) };
    if result == CUresult::CUDA_SUCCESS {
        with(exec, |executable| {
            let node = executable.nodes.iter_mut().find(|known| known.handle == node.0);
            if let Some(node) = node {
                node.enabled = enabled != 0;
                // It may have become stale meanwhile.
                executable.generation = u64::MAX;
            }
        });
    }
    result
});

hook!(cuGraphDestroyNode(node: CUgraphNode) |destroy| {
    if let Some(replays) = replays() {
        replays.forget_node(node.0);
    }
    // SAFETY: the program's arguments.
    unsafe { destroy(node) }
});

hook!(cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: u32, flags: u32) |retain| {
    // SAFETY: the program's arguments.
    let result = unsafe { retain(graph, object, count, flags) };
    if result == CUresult::CUDA_SUCCESS
        && watched().is_some()
        && let Some(replays) = replays()
    {
        replays.set_owner(graph.0);
    }
    result
});

hook!(cuGraphDestroy(graph: CUgraph) |destroy| {
    match replays().map_or(Destroyed::Now, |replays| replays.destroying(graph.0)) {
        Destroyed::Later => CUresult::CUDA_SUCCESS,
        Destroyed::Before => CUresult::CUDA_ERROR_INVALID_VALUE,
        // SAFETY: the program's arguments.
        Destroyed::Now => unsafe { destroy(graph) },
    }
});
