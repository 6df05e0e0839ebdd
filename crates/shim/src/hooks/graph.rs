//! Kernels that are put into graphs by hand are planned as launches are, with
//! the bounds of the memory that their pointers belong to when the node gets
//! them. Kernels captured from a stream pass the launch hooks. A program that
//! asks for a node's parameters gets its own kernel, so that what it sets
//! instead fits the kernel that it names.

use super::define::{hook, hooks};
use super::graph_replay;
use super::kernel_node::Kernel;
use super::launch::launch;
use crate::queries;
use driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUfunction, CUgraph, CUgraphExec,
    CUgraphNode, CUkernel, CUresult,
};

hooks!(
    cuGraphAddKernelNode,
    cuGraphAddKernelNode_v2,
    cuGraphKernelNodeGetParams,
    cuGraphKernelNodeGetParams_v2,
    cuGraphKernelNodeSetParams,
    cuGraphKernelNodeSetParams_v2,
    cuGraphExecKernelNodeSetParams,
    cuGraphExecKernelNodeSetParams_v2,
);

/// Gives a node its kernel: the instrumented copy, where there is one. The
/// device copies the kernel's parameters before it returns.
///
/// # Safety
/// `parameters` is null or points to the program's struct.
pub(super) unsafe fn planned<K: Kernel>(
    parameters: *const K,
    give: impl Fn(*const K) -> CUresult,
) -> CUresult {
    // SAFETY: the caller's word.
    let Some(node) = (unsafe { parameters.as_ref() }) else {
        return give(parameters);
    };
    let place = |handle: u64, pointers, extra| {
        let node = node.with(handle, pointers, extra);
        give(&raw const node)
    };
    // SAFETY: the program's arguments, for that kernel.
    unsafe { launch(node.handle(), node.shape(), node.arguments(), None, place) }
}

hook!(cuGraphAddKernelNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
) |add| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| add(node, graph, dependencies, dependency_count, parameters)) }
});

hook!(cuGraphAddKernelNode_v2(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) |add| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| add(node, graph, dependencies, dependency_count, parameters)) }
});

hook!(cuGraphKernelNodeSetParams(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1) |set| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| set(node, parameters)) }
});

hook!(cuGraphKernelNodeSetParams_v2(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS) |set| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| set(node, parameters)) }
});

hook!(cuGraphExecKernelNodeSetParams(
    graph: CUgraphExec,
    node: CUgraphNode,
    parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
) |set| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = planned(parameters, |parameters| set(graph, node, parameters));
        if result == CUresult::CUDA_SUCCESS && let Some(parameters) = parameters.as_ref() {
            graph_replay::kernel_set(graph, node, parameters);
        }
        result
    }
});

hook!(cuGraphExecKernelNodeSetParams_v2(
    graph: CUgraphExec,
    node: CUgraphNode,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) |set| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = planned(parameters, |parameters| set(graph, node, parameters));
        if result == CUresult::CUDA_SUCCESS && let Some(parameters) = parameters.as_ref() {
            graph_replay::kernel_set(graph, node, parameters);
        }
        result
    }
});

hook!(cuGraphKernelNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS_v1) |get| {
    // SAFETY: the program's arguments; written by a successful call.
    unsafe {
        let result = get(node, parameters);
        if result == CUresult::CUDA_SUCCESS
            && let Some(original) = queries::original((*parameters).func.0)
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
            if let Some(original) = queries::original((*parameters).func.0) {
                (*parameters).func = CUfunction(original);
            }
            if let Some(original) = queries::original((*parameters).kern.0) {
                (*parameters).kern = CUkernel(original);
            }
        }
        result
    }
});
