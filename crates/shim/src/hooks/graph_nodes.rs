//! Copies, sets and allocations that are put into graphs by hand, and the
//! calls that take nodes of every kind. Copies and memsets are checked against the memory
//! that they name when the node gets its parameters.

use super::copy::checked;
use super::define::{hook, hooks};
use super::graph::planned;
use super::{copy_shapes, graph_replay, set};
use crate::session;
use driver::sys::{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUgraph,
    CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeParams, CUgraphNodeType, CUresult,
};
use model::{AllocationKind, DeviceAddress, Extent};
use runtime::{Side, When};

hooks!(
    cuGraphAddMemAllocNode,
    cuGraphAddMemcpyNode,
    cuGraphAddMemsetNode,
    cuGraphAddNode,
    cuGraphAddNode_v2,
    cuGraphExecMemcpyNodeSetParams,
    cuGraphExecMemsetNodeSetParams,
    cuGraphExecNodeSetParams,
    cuGraphMemcpyNodeSetParams,
    cuGraphMemsetNodeSetParams,
    cuGraphNodeSetParams,
);

/// Memory that a graph allocates has its address from the moment that the node
/// is made.
fn allocated(result: CUresult, address: u64, bytes: usize) -> CUresult {
    if result == CUresult::CUDA_SUCCESS
        && let Some(runtime) = session::runtime()
    {
        let extent = Extent {
            base: DeviceAddress(address),
            size: bytes as u64,
        };
        runtime
            .allocations()
            .allocated(AllocationKind::Pool, extent);
    }
    result
}

hook!(cuGraphAddMemAllocNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS_v1,
) |add| {
    // SAFETY: the program's arguments; the address was written by a
    // successful call.
    unsafe {
        let result = add(node, graph, dependencies, dependency_count, parameters);
        if parameters.is_null() { result } else { allocated(result, (*parameters).dptr, (*parameters).bytesize) }
    }
});

hook!(cuGraphAddMemcpyNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    how: *const CUDA_MEMCPY3D,
    context: CUcontext,
) |add| {
    // SAFETY: the program's arguments.
    unsafe {
        checked(FUNCTION, When::Unknown, &copy_shapes::node(how), || {
            add(node, graph, dependencies, dependency_count, how, context)
        })
    }
});

hook!(cuGraphMemcpyNodeSetParams(node: CUgraphNode, how: *const CUDA_MEMCPY3D) |set| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, When::Unknown, &copy_shapes::node(how), || set(node, how)) }
});

hook!(cuGraphExecMemcpyNodeSetParams(
    graph: CUgraphExec,
    node: CUgraphNode,
    how: *const CUDA_MEMCPY3D,
    context: CUcontext,
) |set| {
    // SAFETY: the program's arguments.
    unsafe {
        let sides = copy_shapes::node(how);
        let result = checked(FUNCTION, When::Unknown, &sides, || set(graph, node, how, context));
        given(result, graph, node, &sides)
    }
});

/// Notes what a copy or set of an instantiated graph does now.
fn given(result: CUresult, exec: CUgraphExec, node: CUgraphNode, sides: &[Side]) -> CUresult {
    if result == CUresult::CUDA_SUCCESS {
        graph_replay::call_set(exec, node, sides);
    }
    result
}

/// # Safety
/// `how` is null or points to the struct.
unsafe fn sets(how: *const CUDA_MEMSET_NODE_PARAMS) -> Vec<Side> {
    // SAFETY: the caller's word.
    unsafe { how.as_ref() }.map_or_else(Vec::new, |how| set::node(how).to_vec())
}

hook!(cuGraphAddMemsetNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    how: *const CUDA_MEMSET_NODE_PARAMS,
    context: CUcontext,
) |add| {
    // SAFETY: the program's arguments.
    unsafe {
        checked(FUNCTION, When::Unknown, &sets(how), || add(node, graph, dependencies, dependency_count, how, context))
    }
});

hook!(cuGraphMemsetNodeSetParams(node: CUgraphNode, how: *const CUDA_MEMSET_NODE_PARAMS) |set| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, When::Unknown, &sets(how), || set(node, how)) }
});

hook!(cuGraphExecMemsetNodeSetParams(
    graph: CUgraphExec,
    node: CUgraphNode,
    how: *const CUDA_MEMSET_NODE_PARAMS,
    context: CUcontext,
) |set| {
    // SAFETY: the program's arguments.
    unsafe {
        let sides = sets(how);
        let result = checked(FUNCTION, When::Unknown, &sides, || set(graph, node, how, context));
        given(result, graph, node, &sides)
    }
});

/// What a node does if it is a copy or a set.
fn sides(node: &CUgraphNodeParams) -> Vec<Side> {
    match node.type_ {
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY => {
            // SAFETY: the type says which member is in use.
            unsafe { copy_shapes::node(&raw const node.anonymous2.memcpy.copyParams) }.to_vec()
        }
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => {
            // SAFETY: the type says which member is in use.
            let how = unsafe { node.anonymous2.memset };
            let how = CUDA_MEMSET_NODE_PARAMS {
                dst: how.dst,
                pitch: how.pitch,
                value: how.value,
                elementSize: how.elementSize,
                width: how.width,
                height: how.height,
            };
            set::node(&how).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Gives a node of any kind its parameters.
///
/// # Safety
/// `parameters` is null or points to the program's struct; `give` reads it,
/// and for allocations writes it.
unsafe fn any(
    function: &'static str,
    parameters: *mut CUgraphNodeParams,
    give: impl Fn(*mut CUgraphNodeParams) -> CUresult,
) -> CUresult {
    // SAFETY: the caller's word.
    let Some(program) = unsafe { parameters.as_ref() }.copied() else {
        return give(parameters);
    };
    match program.type_ {
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => {
            // SAFETY: the type says which member is in use.
            let kernel = unsafe { program.anonymous2.kernel };
            let place = |kernel: *const _| {
                let mut node = program;
                // SAFETY: `planned` gives a struct that lives while this runs.
                node.anonymous2.kernel = unsafe { *kernel };
                give(&raw mut node)
            };
            // SAFETY: the program's struct.
            unsafe { planned(&raw const kernel, place) }
        }
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY | CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => {
            checked(function, When::Unknown, &sides(&program), || {
                give(parameters)
            })
        }
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            let result = give(parameters);
            // SAFETY: the address was written by a successful call.
            let made = unsafe { (*parameters).anonymous2.alloc };
            allocated(result, made.dptr, made.bytesize)
        }
        _ => give(parameters),
    }
}

hook!(cuGraphAddNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *mut CUgraphNodeParams,
) |add| {
    // SAFETY: the program's arguments.
    unsafe { any(FUNCTION, parameters, |parameters| add(node, graph, dependencies, dependency_count, parameters)) }
});

hook!(cuGraphAddNode_v2(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    edges: *const CUgraphEdgeData,
    dependency_count: usize,
    parameters: *mut CUgraphNodeParams,
) |add| {
    // SAFETY: the program's arguments.
    unsafe {
        any(FUNCTION, parameters, |parameters| {
            add(node, graph, dependencies, edges, dependency_count, parameters)
        })
    }
});

hook!(cuGraphNodeSetParams(node: CUgraphNode, parameters: *mut CUgraphNodeParams) |set| {
    // SAFETY: the program's arguments.
    unsafe { any(FUNCTION, parameters, |parameters| set(node, parameters)) }
});

hook!(cuGraphExecNodeSetParams(graph: CUgraphExec, node: CUgraphNode, parameters: *mut CUgraphNodeParams) |set| {
    // SAFETY: the program's arguments; the type says which member is in use.
    unsafe {
        let result = any(FUNCTION, parameters, |parameters| set(graph, node, parameters));
        if result == CUresult::CUDA_SUCCESS && let Some(program) = parameters.as_ref() {
            match program.type_ {
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => {
                    graph_replay::kernel_set(graph, node, &program.anonymous2.kernel);
                }
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY | CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => {
                    graph_replay::call_set(graph, node, &sides(program));
                }
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH => {
                    graph_replay::child_set(graph, node, program.anonymous2.graph.graph);
                }
                _ => {}
            }
        }
        result
    }
});
