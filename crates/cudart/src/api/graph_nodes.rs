//! Nodes of graphs: kernels, copies, fills, host functions, events, memory.

use crate::api::copy::node_parameters;
use crate::convert::{address, kernel_node, pointer, sides};
use crate::generated::types::*;
use crate::registry;
use crate::state::{self, ready};
use driver::sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUgraphNode, CUkernel,
};
use std::ffi::c_void;

/// The context that nodes get: the current one.
pub(crate) fn context() -> Result<CUcontext, cudaError_t> {
    ready()?;
    let mut context = CUcontext::NULL;
    cu!(cuCtxGetCurrent(&raw mut context))?;
    Ok(context)
}

fn kernel_parameters(
    params: *const cudaKernelNodeParams,
) -> Result<CUDA_KERNEL_NODE_PARAMS, cudaError_t> {
    ready()?;
    let params = get!(params)?;
    Ok(kernel_node(params, registry::kernel(params.func as usize)?))
}

fn memset_parameters(
    params: *const cudaMemsetParams,
) -> Result<CUDA_MEMSET_NODE_PARAMS, cudaError_t> {
    let params = get!(params)?;
    Ok(CUDA_MEMSET_NODE_PARAMS {
        dst: address(params.dst),
        pitch: params.pitch,
        value: params.value,
        elementSize: params.elementSize,
        width: params.width,
        height: params.height,
    })
}

fn host_parameters(
    params: *const cudaHostNodeParams,
) -> Result<CUDA_HOST_NODE_PARAMS, cudaError_t> {
    let params = get!(params)?;
    Ok(CUDA_HOST_NODE_PARAMS {
        fn_: params.r#fn,
        userData: params.userData,
    })
}

/// A copy of `count` bytes as a 3-D copy of one row.
pub(crate) fn row(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> Result<CUDA_MEMCPY3D, cudaError_t> {
    use driver::sys::CUmemorytype as T;
    let (from, to) = sides(kind)?;
    let mut copy = CUDA_MEMCPY3D {
        srcMemoryType: from,
        srcPitch: count,
        srcHeight: 1,
        dstMemoryType: to,
        dstPitch: count,
        dstHeight: 1,
        WidthInBytes: count,
        Height: 1,
        Depth: 1,
        ..CUDA_MEMCPY3D::zeroed()
    };
    if from == T::CU_MEMORYTYPE_HOST {
        copy.srcHost = src
    } else {
        copy.srcDevice = address(src)
    }
    if to == T::CU_MEMORYTYPE_HOST {
        copy.dstHost = dst
    } else {
        copy.dstDevice = address(dst)
    }
    Ok(copy)
}

pub(crate) fn add_copy(
    out: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    dependencies: *const cudaGraphNode_t,
    count: usize,
    copy: &CUDA_MEMCPY3D,
) -> Result<(), cudaError_t> {
    let context = context()?;
    let mut node = CUgraphNode::NULL;
    cu!(cuGraphAddMemcpyNode(
        &raw mut node,
        graph,
        dependencies,
        count,
        copy,
        context
    ))?;
    put!(out, node)
}

runtime! {
    /// Adds a kernel.
    fn cudaGraphAddKernelNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        pNodeParams: *const cudaKernelNodeParams
    ) {
        let params = kernel_parameters(pNodeParams)?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddKernelNode_v2(&raw mut node, graph, pDependencies, numDependencies, &raw const params))?;
        put!(pGraphNode, node)
    }

    /// A kernel node's parameters; its function is the host stub.
    fn cudaGraphKernelNodeGetParams(node: cudaGraphNode_t, pNodeParams: *mut cudaKernelNodeParams) {
        ready()?;
        let mut params = CUDA_KERNEL_NODE_PARAMS::zeroed();
        cu!(cuGraphKernelNodeGetParams_v2(node, &raw mut params))?;
        let kernel = if params.kern == CUkernel::NULL { CUkernel(params.func.0) } else { params.kern };
        put!(pNodeParams, cudaKernelNodeParams {
            func: registry::host_of(kernel) as *mut c_void,
            gridDim: dim3 { x: params.gridDimX, y: params.gridDimY, z: params.gridDimZ },
            blockDim: dim3 { x: params.blockDimX, y: params.blockDimY, z: params.blockDimZ },
            sharedMemBytes: params.sharedMemBytes,
            kernelParams: params.kernelParams,
            extra: params.extra,
        })
    }

    /// Sets a kernel node's parameters.
    fn cudaGraphKernelNodeSetParams(node: cudaGraphNode_t, pNodeParams: *const cudaKernelNodeParams) {
        let params = kernel_parameters(pNodeParams)?;
        cu!(cuGraphKernelNodeSetParams_v2(node, &raw const params))
    }

    /// Sets a kernel node's parameters in an executable graph.
    fn cudaGraphExecKernelNodeSetParams(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaKernelNodeParams
    ) {
        let params = kernel_parameters(pNodeParams)?;
        cu!(cuGraphExecKernelNodeSetParams_v2(hGraphExec, node, &raw const params))
    }

    /// Adds a copy of a box.
    fn cudaGraphAddMemcpyNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        pCopyParams: *const cudaMemcpy3DParms
    ) {
        add_copy(pGraphNode, graph, pDependencies, numDependencies, &node_parameters(pCopyParams)?)
    }

    /// Adds a copy of bytes.
    fn cudaGraphAddMemcpyNode1D(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind
    ) {
        add_copy(pGraphNode, graph, pDependencies, numDependencies, &row(dst, src, count, kind)?)
    }

    /// Sets a copy node's parameters.
    fn cudaGraphMemcpyNodeSetParams(node: cudaGraphNode_t, pNodeParams: *const cudaMemcpy3DParms) {
        let copy = node_parameters(pNodeParams)?;
        cu!(cuGraphMemcpyNodeSetParams(node, &raw const copy))
    }

    /// Sets a copy node's parameters.
    fn cudaGraphMemcpyNodeSetParams1D(
        node: cudaGraphNode_t, dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind
    ) {
        ready()?;
        let copy = row(dst, src, count, kind)?;
        cu!(cuGraphMemcpyNodeSetParams(node, &raw const copy))
    }

    /// Sets a copy node's parameters in an executable graph.
    fn cudaGraphExecMemcpyNodeSetParams(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaMemcpy3DParms
    ) {
        let copy = node_parameters(pNodeParams)?;
        cu!(cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &raw const copy, context()?))
    }

    /// Sets a copy node's parameters in an executable graph.
    fn cudaGraphExecMemcpyNodeSetParams1D(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, dst: *mut c_void, src: *const c_void, count: usize,
        kind: cudaMemcpyKind
    ) {
        let copy = row(dst, src, count, kind)?;
        cu!(cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &raw const copy, context()?))
    }

    /// Adds a fill.
    fn cudaGraphAddMemsetNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        pMemsetParams: *const cudaMemsetParams
    ) {
        let context = context()?;
        let params = memset_parameters(pMemsetParams)?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddMemsetNode(&raw mut node, graph, pDependencies, numDependencies, &raw const params, context))?;
        put!(pGraphNode, node)
    }

    /// A fill node's parameters.
    fn cudaGraphMemsetNodeGetParams(node: cudaGraphNode_t, pNodeParams: *mut cudaMemsetParams) {
        ready()?;
        let mut params = CUDA_MEMSET_NODE_PARAMS::zeroed();
        cu!(cuGraphMemsetNodeGetParams(node, &raw mut params))?;
        put!(pNodeParams, cudaMemsetParams {
            dst: pointer(params.dst),
            pitch: params.pitch,
            value: params.value,
            elementSize: params.elementSize,
            width: params.width,
            height: params.height,
        })
    }

    /// Sets a fill node's parameters.
    fn cudaGraphMemsetNodeSetParams(node: cudaGraphNode_t, pNodeParams: *const cudaMemsetParams) {
        ready()?;
        let params = memset_parameters(pNodeParams)?;
        cu!(cuGraphMemsetNodeSetParams(node, &raw const params))
    }

    /// Sets a fill node's parameters in an executable graph.
    fn cudaGraphExecMemsetNodeSetParams(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaMemsetParams
    ) {
        let params = memset_parameters(pNodeParams)?;
        cu!(cuGraphExecMemsetNodeSetParams(hGraphExec, node, &raw const params, context()?))
    }

    /// Adds a host function.
    fn cudaGraphAddHostNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        pNodeParams: *const cudaHostNodeParams
    ) {
        ready()?;
        let params = host_parameters(pNodeParams)?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddHostNode(&raw mut node, graph, pDependencies, numDependencies, &raw const params))?;
        put!(pGraphNode, node)
    }

    /// A host node's parameters.
    fn cudaGraphHostNodeGetParams(node: cudaGraphNode_t, pNodeParams: *mut cudaHostNodeParams) {
        ready()?;
        let mut params = CUDA_HOST_NODE_PARAMS::zeroed();
        cu!(cuGraphHostNodeGetParams(node, &raw mut params))?;
        put!(pNodeParams, cudaHostNodeParams { r#fn: params.fn_, userData: params.userData })
    }

    /// Sets a host node's parameters.
    fn cudaGraphHostNodeSetParams(node: cudaGraphNode_t, pNodeParams: *const cudaHostNodeParams) {
        ready()?;
        let params = host_parameters(pNodeParams)?;
        cu!(cuGraphHostNodeSetParams(node, &raw const params))
    }

    /// Sets a host node's parameters in an executable graph.
    fn cudaGraphExecHostNodeSetParams(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaHostNodeParams
    ) {
        ready()?;
        let params = host_parameters(pNodeParams)?;
        cu!(cuGraphExecHostNodeSetParams(hGraphExec, node, &raw const params))
    }

    /// Adds a node that only orders others.
    fn cudaGraphAddEmptyNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize
    ) {
        ready()?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddEmptyNode(&raw mut node, graph, pDependencies, numDependencies))?;
        put!(pGraphNode, node)
    }

    /// Adds a whole graph as a node.
    fn cudaGraphAddChildGraphNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        childGraph: cudaGraph_t
    ) {
        ready()?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddChildGraphNode(&raw mut node, graph, pDependencies, numDependencies, childGraph))?;
        put!(pGraphNode, node)
    }

    /// The graph of a child node.
    fn cudaGraphChildGraphNodeGetGraph(node: cudaGraphNode_t, pGraph: *mut cudaGraph_t) {
        ready()?;
        cu!(cuGraphChildGraphNodeGetGraph(node, pGraph))
    }

    /// Adds the recording of an event.
    fn cudaGraphAddEventRecordNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        event: cudaEvent_t
    ) {
        ready()?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddEventRecordNode(&raw mut node, graph, pDependencies, numDependencies, event))?;
        put!(pGraphNode, node)
    }

    /// Adds waiting for an event.
    fn cudaGraphAddEventWaitNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        event: cudaEvent_t
    ) {
        ready()?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddEventWaitNode(&raw mut node, graph, pDependencies, numDependencies, event))?;
        put!(pGraphNode, node)
    }

    /// Adds an allocation.
    fn cudaGraphAddMemAllocNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        nodeParams: *mut cudaMemAllocNodeParams
    ) {
        ready()?;
        let mut node = CUgraphNode::NULL;
        // The parameters are laid out as the driver's.
        cu!(cuGraphAddMemAllocNode(&raw mut node, graph, pDependencies, numDependencies, nodeParams.cast()))?;
        put!(pGraphNode, node)
    }

    /// Adds freeing.
    fn cudaGraphAddMemFreeNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        dptr: *mut c_void
    ) {
        ready()?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddMemFreeNode(&raw mut node, graph, pDependencies, numDependencies, address(dptr)))?;
        put!(pGraphNode, node)
    }

    /// Releases memory that graphs hold.
    fn cudaDeviceGraphMemTrim(device: i32) {
        let device = state::device_at(device)?;
        cu!(cuDeviceGraphMemTrim(device))
    }
}
