//! Kernels that are put into graphs by hand run as they are, and are counted.
//! (Kernels captured from a stream pass the launch hooks and are checked.)

use super::{hook, hooks};
use crate::session;
use driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUgraph, CUgraphEdgeData, CUgraphNode,
    CUgraphNodeParams, CUgraphNodeType, CUresult,
};
use model::UncheckedReason;

hooks!(
    cuGraphAddKernelNode,
    cuGraphAddKernelNode_v2,
    cuGraphAddNode,
    cuGraphAddNode_v2
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

/// # Safety
/// `parameters` is null or was read by the call that gave `result`.
unsafe fn count_node(result: CUresult, parameters: *const CUgraphNodeParams) -> CUresult {
    if parameters.is_null() {
        return result;
    }
    // SAFETY: the caller's word; `kernel` is the member in use for kernels.
    unsafe {
        if (*parameters).type_ != CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
            return result;
        }
        let kernel = (*parameters).anonymous2.kernel;
        count(result, kernel.func.0, kernel.kern.0)
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
