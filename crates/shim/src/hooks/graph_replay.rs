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
//! too. A graph within the graph is given as a whole: a copy of it, of which the
//! nodes have their new parameters. Graphs for launches by the device, and what
//! conditional nodes hold, are left as they are.

use super::copy::checked;
use super::define::{hook, hooks};
use super::graph_scan::{self, Scanned};
use super::kernel_node::Kernel;
use super::launch::{Arguments, launch};
use super::watch::{self, What};
use super::{graph_memory, streams};
use crate::process;
use crate::queries::is_capturing;
use crate::session::{self, next};
use crate::state::{Child, Destroyed, Executable, GraphMemory, KernelNode, Node, Replays, Work};
use crate::timing::{self, Timed};
use driver::sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraph, CUgraphExec,
    CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUgraphInstantiate_flags, CUgraphNode,
    CUkernel, CUresult, CUstream, CUuserObject,
};
use runtime::{Ordering, Runtime, Side, When};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

hooks!(
    cuGraphDestroy,
    cuGraphDestroyNode,
    cuGraphExecChildGraphNodeSetParams,
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

/// No generation of memory: what was planned for it is planned again.
const NEVER: u64 = u64::MAX;

fn replays() -> Option<&'static Replays> {
    Some(&session::get()?.replays)
}

fn watched() -> Option<&'static Runtime> {
    session::runtime().filter(|runtime| runtime.env().settings().check)
}

impl KernelNode {
    /// Plans the node for a launch of today, and gives it the parameters by
    /// `set`.
    fn renew(
        &mut self,
        stream: (CUstream, bool),
        set: impl Fn(*const CUDA_KERNEL_NODE_PARAMS) -> CUresult,
    ) -> CUresult {
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
            set(&raw const parameters)
        };
        // SAFETY: the parameters that the node was given for this function.
        unsafe { launch(self.function, shape, arguments, Some(stream), place) }
    }
}

/// Gives a kernel node of an instantiated graph its parameters.
fn set_in_executable(
    exec: CUgraphExec,
    node: u64,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) -> CUresult {
    match next().and_then(|api| api.cuGraphExecKernelNodeSetParams_v2) {
        // SAFETY: a node of the graph that this was made of, which is kept; the
        // parameters are those of the function.
        Some(set) => unsafe { set(exec, CUgraphNode(node), parameters) },
        None => CUresult::CUDA_ERROR_NOT_SUPPORTED,
    }
}

/// The same in a copy of a graph within the graph.
fn set_in_copy(node: u64, parameters: *const CUDA_KERNEL_NODE_PARAMS) -> CUresult {
    match next().and_then(|api| api.cuGraphKernelNodeSetParams_v2) {
        // SAFETY: a node of a copy that nothing else changes; the parameters are
        // those of the function.
        Some(set) => unsafe { set(CUgraphNode(node), parameters) },
        None => CUresult::CUDA_ERROR_NOT_SUPPORTED,
    }
}

/// Gives an instantiated graph the copy of a graph within it.
fn give_copy(exec: CUgraphExec, child: &Child) -> CUresult {
    match next().and_then(|api| api.cuGraphExecChildGraphNodeSetParams) {
        // SAFETY: a node of the graph that this was made of, which is kept, and a
        // copy of the node's own graph.
        Some(set) => unsafe { set(exec, CUgraphNode(child.handle), CUgraph(child.copy)) },
        None => CUresult::CUDA_ERROR_NOT_SUPPORTED,
    }
}

/// Plans anew those of the nodes that need it. Returns whether a kernel was
/// planned, or the answer for the program if the graph is not to be launched.
fn renew(
    runtime: &Runtime,
    nodes: &mut [Node],
    stream: (CUstream, bool),
    set: impl Fn(u64, *const CUDA_KERNEL_NODE_PARAMS) -> CUresult,
) -> Result<bool, CUresult> {
    let mut planned = false;
    let stale = |node: &&mut Node| node.enabled && node.is_stale(runtime);
    for node in nodes.iter_mut().filter(stale) {
        match &mut node.work {
            Work::Kernel(kernel) => {
                let handle = node.handle;
                let result = kernel.renew(stream, |parameters| set(handle, parameters));
                kept_its_bounds(runtime, result);
                planned = true;
            }
            Work::Call(sides) => {
                let result = checked("cuGraphLaunch", When::Last, sides, || {
                    CUresult::CUDA_SUCCESS
                });
                if result != CUresult::CUDA_SUCCESS {
                    return Err(result);
                }
            }
        }
        node.look(runtime);
    }
    Ok(planned)
}

/// Says so if the device did not take what was planned.
fn kept_its_bounds(runtime: &Runtime, result: CUresult) {
    if result != CUresult::CUDA_SUCCESS {
        let message = format!(
            "a kernel of a graph kept the bounds of memory that has come or gone since ({result:?}): \
             uses of what was freed are not found there"
        );
        runtime.env().error(&message, false);
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
    ) -> Result<(), CUresult> {
        renew(runtime, &mut self.nodes, stream, |node, parameters| {
            set_in_executable(exec, node, parameters)
        })?;
        // The handles of their nodes are good only while the graph is there.
        if self.graph.is_none() {
            return Ok(());
        }
        for child in &mut self.children {
            if renew(runtime, &mut child.nodes, stream, set_in_copy)? {
                kept_its_bounds(runtime, give_copy(exec, child));
            }
        }
        Ok(())
    }

    fn new(runtime: &Runtime, graph: CUgraph) -> Executable {
        let scanned = graph_scan::scan(runtime, graph);
        let generation = match scanned.is_doubtful() {
            true => NEVER,
            false => runtime.allocations().generation(),
        };
        Executable {
            graph: scanned.needs_handles().then_some(graph.0),
            shape: graph_scan::shape(graph),
            nodes: scanned.nodes,
            children: scanned.children,
            generation,
            memory: Arc::new(graph_memory::of(runtime, graph)),
        }
    }
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
        let executable = Executable::new(runtime, graph);
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
    let into = match is_capturing() || !runtime.streams().are_tracked() {
        true => None,
        false => streams::in_use(runtime, stream.0, stream.1),
    };
    runtime.launcher().graph_launching(into);
    if let Some(memory) = memory_of(exec) {
        graph_memory::launching(runtime, &memory);
    }
    if is_capturing() {
        return None;
    }
    let generation = runtime.allocations().generation();
    let replays = replays()?;
    let mut executable = replays.take_stale(exec.0, generation)?;
    let renewed = executable.renew(runtime, exec, stream);
    if renewed.is_ok() {
        executable.generation = generation;
    }
    replays.put_back(exec.0, executable);
    renewed.err()
}

hook!(cuGraphExecDestroy(exec: CUgraphExec) |destroy| {
    timing::forget_graph(exec.0);
    let known = replays().and_then(|replays| replays.remove(exec.0));
    // SAFETY: the program's arguments.
    let result = unsafe { destroy(exec) };
    if let Some(executable) = known {
        executable.children.into_iter().for_each(graph_scan::destroy_copy);
        if let Some(graph) = executable.graph {
            release(graph);
        }
    }
    result
});

/// The nodes of an instantiated graph have the work of another graph's. They
/// keep their handles: those of the graph that it was made of. Which is which
/// is known if both graphs hang together in the same way, node by node in the
/// device's order; otherwise kernels keep the bounds that they have.
fn updated(result: CUresult, exec: CUgraphExec, graph: CUgraph) -> CUresult {
    let is_known = replays().is_some_and(|replays| replays.contains(exec.0));
    if is_known && let Some(runtime) = watched() {
        let is_done = result == CUresult::CUDA_SUCCESS;
        let scanned = match is_done {
            true => graph_scan::scan(runtime, graph),
            false => Scanned::default(),
        };
        let shape = is_done.then(|| graph_scan::shape(graph)).flatten();
        let (mut unused, mut needed) = (Vec::new(), None);
        let mut scanned = Some(scanned);
        with(exec, |executable| {
            let own = executable.graph.and(executable.shape.as_ref());
            let pairs = own.and_then(|own| own.pairs(shape.as_ref()?));
            if pairs.is_none() {
                needed = executable.graph.take();
            }
            let Some(scanned) = scanned.take() else {
                return;
            };
            let mut renamed = scanned.renamed(pairs.as_ref(), &mut unused);
            for node in &mut renamed.nodes {
                let mut known = executable.nodes.iter();
                let known = known.find(|known| known.handle == node.handle);
                node.enabled = known.is_none_or(|known| known.enabled);
            }
            executable.nodes = renamed.nodes;
            unused.append(&mut executable.children);
            executable.children = renamed.children;
            executable.generation = NEVER;
        });
        let unused = unused.into_iter();
        unused
            .chain(scanned.into_iter().flat_map(|scanned| scanned.children))
            .for_each(graph_scan::destroy_copy);
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

/// A graph within an instantiated graph has other work now.
pub(super) fn child_set(exec: CUgraphExec, node: CUgraphNode, inner: CUgraph) {
    let Some(runtime) = watched() else { return };
    let mut old = graph_scan::child(runtime, node, inner);
    with(exec, |executable| {
        let mut of_node = executable
            .children
            .iter_mut()
            .filter(|child| child.handle == node.0);
        if let Some(place) = of_node.next() {
            match old.as_mut() {
                Some(new) => std::mem::swap(place, new),
                None => place.nodes.clear(),
            }
            executable.generation = NEVER;
        }
    });
    old.into_iter().for_each(graph_scan::destroy_copy);
}

hook!(cuGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, inner: CUgraph) |set| {
    // SAFETY: the program's arguments.
    let result = unsafe { set(exec, node, inner) };
    if result == CUresult::CUDA_SUCCESS {
        child_set(exec, node, inner);
    }
    result
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
                executable.generation = NEVER;
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
