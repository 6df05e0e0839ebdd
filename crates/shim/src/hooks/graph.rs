//! Kernels that are put into graphs by hand run as they are, and are counted.
//! Kernels captured from a stream pass the launch hooks and are checked; a
//! program that asks for such a node's parameters hears of its own kernel, so
//! that what it sets instead fits the kernel that it names.

use super::{hook, hooks, loaded};
use crate::session;
use driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEM_ALLOC_NODE_PARAMS_v1, CUfunction,
    CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeParams, CUgraphNodeType,
    CUkernel, CUresult,
};
use model::{AllocationKind, DeviceAddress, Extent, UncheckedReason};

hooks!(
    cuGraphAddKernelNode,
    cuGraphAddKernelNode_v2,
    cuGraphAddMemAllocNode,
    cuGraphAddNode,
    cuGraphAddNode_v2,
    cuGraphKernelNodeGetParams,
    cuGraphKernelNodeGetParams_v2,
    cuGraphKernelNodeSetParams,
    cuGraphKernelNodeSetParams_v2,
    cuGraphExecKernelNodeSetParams,
    cuGraphExecKernelNodeSetParams_v2,
);

/// Counts a kernel node by its function or kernel handle.
fn count(result: CUresult, function: u64, kernel: u64) -> CUresult {
    if result == CUresult::CUDA_SUCCESS
        && let Some(runtime) = session::runtime()
    {
        runtime.unhooked_launch(
            if function != 0 { function } else { kernel },
            UncheckedReason::LaunchPath,
        );
    }
    result
}

hook!(cuGraphAddKernelNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
) |add| {
    // SAFETY: the program's arguments; the parameters were read by a
    // successful call.
    unsafe {
        let result = add(node, graph, dependencies, dependency_count, parameters);
        if parameters.is_null() { result } else { count(result, (*parameters).func.0, 0) }
    }
});

hook!(cuGraphAddKernelNode_v2(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) |add| {
    // SAFETY: as above.
    unsafe {
        let result = add(node, graph, dependencies, dependency_count, parameters);
        if parameters.is_null() { result } else { count(result, (*parameters).func.0, (*parameters).kern.0) }
    }
});

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
        runtime.allocated(AllocationKind::Pool, extent);
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

/// # Safety
/// `parameters` is null or was read by the call that gave `result`.
unsafe fn count_node(result: CUresult, parameters: *const CUgraphNodeParams) -> CUresult {
    if parameters.is_null() {
        return result;
    }
    // SAFETY: the caller's word; the type says which member is in use.
    unsafe {
        let members = (*parameters).anonymous2;
        match (*parameters).type_ {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => {
                count(result, members.kernel.func.0, members.kernel.kern.0)
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                allocated(result, members.alloc.dptr, members.alloc.bytesize)
            }
            _ => result,
        }
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
    unsafe { count_node(add(node, graph, dependencies, dependency_count, parameters), parameters) }
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
    unsafe { count_node(add(node, graph, dependencies, edges, dependency_count, parameters), parameters) }
});

hook!(cuGraphKernelNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS_v1) |get| {
    // SAFETY: the program's arguments; written by a successful call.
    unsafe {
        let result = get(node, parameters);
        if result == CUresult::CUDA_SUCCESS
            && let Some(original) = loaded::original((*parameters).func.0)
        {
            (*parameters).func = CUfunction(original);
        }
        result
    }
});

hook!(cuGraphKernelNodeGetParams_v2(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS) |get| {
    // SAFETY: the program's arguments; written by a successful call.
    unsafe {
        let result = get(node, parameters);
        if result == CUresult::CUDA_SUCCESS {
            if let Some(original) = loaded::original((*parameters).func.0) {
                (*parameters).func = CUfunction(original);
            }
            if let Some(original) = loaded::original((*parameters).kern.0) {
                (*parameters).kern = CUkernel(original);
            }
        }
        result
    }
});

hook!(cuGraphKernelNodeSetParams(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1) |set| {
    // SAFETY: the program's arguments; read by a successful call.
    unsafe {
        let result = set(node, parameters);
        if parameters.is_null() { result } else { count(result, (*parameters).func.0, 0) }
    }
});

hook!(cuGraphKernelNodeSetParams_v2(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS) |set| {
    // SAFETY: the program's arguments; read by a successful call.
    unsafe {
        let result = set(node, parameters);
        if parameters.is_null() { result } else { count(result, (*parameters).func.0, (*parameters).kern.0) }
    }
});

hook!(cuGraphExecKernelNodeSetParams(
    graph: CUgraphExec,
    node: CUgraphNode,
    parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
) |set| {
    // SAFETY: the program's arguments; read by a successful call.
    unsafe {
        let result = set(graph, node, parameters);
        if parameters.is_null() { result } else { count(result, (*parameters).func.0, 0) }
    }
});

hook!(cuGraphExecKernelNodeSetParams_v2(
    graph: CUgraphExec,
    node: CUgraphNode,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) |set| {
    // SAFETY: the program's arguments; read by a successful call.
    unsafe {
        let result = set(graph, node, parameters);
        if parameters.is_null() { result } else { count(result, (*parameters).func.0, (*parameters).kern.0) }
    }
});
