//! Nodes of any kind by one struct, attributes of kernel nodes, and copy nodes
//! to and from variables.

use crate::api::copy::node_parameters;
use crate::api::graph_nodes::{add_copy, context, row};
use crate::api::symbol::within;
use crate::convert::{address, kernel_node, pointer};
use crate::generated::types::*;
use crate::registry;
use crate::state::{self, ready};
use driver::sys::{
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS, CUDA_EVENT_RECORD_NODE_PARAMS,
    CUDA_EVENT_WAIT_NODE_PARAMS, CUDA_HOST_NODE_PARAMS_v2, CUDA_KERNEL_NODE_PARAMS_v3,
    CUDA_MEM_FREE_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS_v2,
    CUgraphChildGraphNodeOwnership, CUgraphConditionalNodeType, CUgraphMem_attribute, CUgraphNode,
    CUgraphNodeParams, CUgraphNodeType, CUlaunchAttributeID, CUmemorytype,
};
use std::ffi::c_void;

fn driver_kernel(
    kernel: &cudaKernelNodeParamsV2,
) -> Result<CUDA_KERNEL_NODE_PARAMS_v3, cudaError_t> {
    let plain = cudaKernelNodeParams {
        func: kernel.func,
        gridDim: kernel.gridDim,
        blockDim: kernel.blockDim,
        sharedMemBytes: kernel.sharedMemBytes,
        kernelParams: kernel.kernelParams,
        extra: kernel.extra,
    };
    let node = kernel_node(&plain, registry::kernel(kernel.func as usize)?);
    Ok(CUDA_KERNEL_NODE_PARAMS_v3 {
        func: node.func,
        gridDimX: node.gridDimX,
        gridDimY: node.gridDimY,
        gridDimZ: node.gridDimZ,
        blockDimX: node.blockDimX,
        blockDimY: node.blockDimY,
        blockDimZ: node.blockDimZ,
        sharedMemBytes: node.sharedMemBytes,
        kernelParams: node.kernelParams,
        extra: node.extra,
        kern: node.kern,
        ctx: node.ctx,
    })
}

/// Which member of the union a node's type selects.
fn driver_node(params: &cudaGraphNodeParams) -> Result<CUgraphNodeParams, cudaError_t> {
    use cudaGraphNodeType as T;
    ready()?;
    let mut out = CUgraphNodeParams::zeroed();
    out.type_ = CUgraphNodeType(params.r#type.0);
    let from = &params.anonymous1;
    let to = &mut out.anonymous2;
    // SAFETY: the program says by `type` which member of its union it filled;
    // all members are integers, handles and pointers, for which any bits do.
    unsafe {
        match params.r#type {
            T::cudaGraphNodeTypeKernel => {
                to.kernel = driver_kernel(&from.kernel)?;
            }
            T::cudaGraphNodeTypeMemcpy => {
                to.memcpy = CUDA_MEMCPY_NODE_PARAMS {
                    flags: from.memcpy.flags,
                    reserved: 0,
                    copyCtx: context()?,
                    copyParams: node_parameters(&raw const from.memcpy.copyParams)?,
                };
            }
            T::cudaGraphNodeTypeMemset => {
                let memset = from.memset;
                to.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
                    dst: address(memset.dst),
                    pitch: memset.pitch,
                    value: memset.value,
                    elementSize: memset.elementSize,
                    width: memset.width,
                    height: memset.height,
                    ctx: context()?,
                };
            }
            T::cudaGraphNodeTypeHost => {
                to.host = CUDA_HOST_NODE_PARAMS_v2 {
                    fn_: from.host.r#fn,
                    userData: from.host.userData,
                };
            }
            T::cudaGraphNodeTypeGraph => {
                to.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
                    graph: from.graph.graph,
                    ownership: CUgraphChildGraphNodeOwnership(from.graph.ownership.0),
                };
            }
            T::cudaGraphNodeTypeEmpty => {}
            T::cudaGraphNodeTypeWaitEvent => {
                to.eventWait = CUDA_EVENT_WAIT_NODE_PARAMS {
                    event: from.eventWait.event,
                };
            }
            T::cudaGraphNodeTypeEventRecord => {
                to.eventRecord = CUDA_EVENT_RECORD_NODE_PARAMS {
                    event: from.eventRecord.event,
                };
            }
            T::cudaGraphNodeTypeMemAlloc => {
                // Laid out as the driver's; asserted in `convert`.
                to.alloc = std::mem::transmute::<
                    cudaMemAllocNodeParamsV2,
                    driver::sys::CUDA_MEM_ALLOC_NODE_PARAMS_v2,
                >(from.alloc);
            }
            T::cudaGraphNodeTypeMemFree => {
                to.free = CUDA_MEM_FREE_NODE_PARAMS {
                    dptr: address(from.free.dptr),
                };
            }
            T::cudaGraphNodeTypeConditional => {
                to.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
                    handle: from.conditional.handle,
                    type_: CUgraphConditionalNodeType(from.conditional.r#type.0),
                    size: from.conditional.size,
                    phGraph_out: from.conditional.phGraph_out,
                    ctx: context()?,
                };
            }
            _ => return Err(cudaError_t::cudaErrorNotSupported),
        }
    }
    Ok(out)
}

/// What the driver fills in while it adds a node: the address of an
/// allocation, the graphs of a conditional node.
fn give_back(params: *mut cudaGraphNodeParams, node: &CUgraphNodeParams) {
    // SAFETY: the caller of `cudaGraphAddNode` passes parameters that can be
    // written, and `type` says which members are in use.
    unsafe {
        match (*params).r#type {
            cudaGraphNodeType::cudaGraphNodeTypeMemAlloc => {
                (*params).anonymous1.alloc.dptr = pointer(node.anonymous2.alloc.dptr);
            }
            cudaGraphNodeType::cudaGraphNodeTypeConditional => {
                (*params).anonymous1.conditional.phGraph_out =
                    node.anonymous2.conditional.phGraph_out;
            }
            _ => {}
        }
    }
}

/// The copy node of `count` bytes into a variable.
fn into_symbol(
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> Result<CUDA_MEMCPY3D, cudaError_t> {
    row(within(symbol, count, offset)?, src, count, kind)
}

/// The copy node of `count` bytes out of a variable.
fn out_of_symbol(
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> Result<CUDA_MEMCPY3D, cudaError_t> {
    row(dst, within(symbol, count, offset)?, count, kind)
}

/// A copy node's parameters as the program reads them. Byte offsets in arrays
/// stay bytes: a node does not keep the units in which it was made.
fn runtime_copy(copy: &CUDA_MEMCPY3D) -> cudaMemcpy3DParms {
    use CUmemorytype as M;
    use cudaMemcpyKind as K;
    let kind = match (copy.srcMemoryType, copy.dstMemoryType) {
        (M::CU_MEMORYTYPE_UNIFIED, _) | (_, M::CU_MEMORYTYPE_UNIFIED) => K::cudaMemcpyDefault,
        (M::CU_MEMORYTYPE_HOST, M::CU_MEMORYTYPE_HOST) => K::cudaMemcpyHostToHost,
        (M::CU_MEMORYTYPE_HOST, _) => K::cudaMemcpyHostToDevice,
        (_, M::CU_MEMORYTYPE_HOST) => K::cudaMemcpyDeviceToHost,
        _ => K::cudaMemcpyDeviceToDevice,
    };
    let side = |memory, host: *mut c_void, device, pitch, height| cudaPitchedPtr {
        ptr: if memory == M::CU_MEMORYTYPE_HOST {
            host
        } else {
            pointer(device)
        },
        pitch,
        xsize: copy.WidthInBytes,
        ysize: height,
    };
    cudaMemcpy3DParms {
        srcArray: copy.srcArray,
        srcPos: cudaPos {
            x: copy.srcXInBytes,
            y: copy.srcY,
            z: copy.srcZ,
        },
        srcPtr: side(
            copy.srcMemoryType,
            copy.srcHost.cast_mut(),
            copy.srcDevice,
            copy.srcPitch,
            copy.srcHeight,
        ),
        dstArray: copy.dstArray,
        dstPos: cudaPos {
            x: copy.dstXInBytes,
            y: copy.dstY,
            z: copy.dstZ,
        },
        dstPtr: side(
            copy.dstMemoryType,
            copy.dstHost,
            copy.dstDevice,
            copy.dstPitch,
            copy.dstHeight,
        ),
        extent: cudaExtent {
            width: copy.WidthInBytes,
            height: copy.Height,
            depth: copy.Depth,
        },
        kind,
    }
}

runtime! {
    /// Adds a node of any kind.
    fn cudaGraphAddNode(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t,
        dependencyData: *const cudaGraphEdgeData, numDependencies: usize, nodeParams: *mut cudaGraphNodeParams
    ) {
        let mut params = driver_node(get!(nodeParams)?)?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphAddNode_v2(
            &raw mut node, graph, pDependencies, dependencyData.cast(), numDependencies, &raw mut params
        ))?;
        give_back(nodeParams, &params);
        put!(pGraphNode, node)
    }

    /// Sets a node's parameters.
    fn cudaGraphNodeSetParams(node: cudaGraphNode_t, nodeParams: *mut cudaGraphNodeParams) {
        let mut params = driver_node(get!(nodeParams)?)?;
        cu!(cuGraphNodeSetParams(node, &raw mut params))
    }

    /// Sets a node's parameters in an executable graph.
    fn cudaGraphExecNodeSetParams(
        graphExec: cudaGraphExec_t, node: cudaGraphNode_t, nodeParams: *mut cudaGraphNodeParams
    ) {
        let mut params = driver_node(get!(nodeParams)?)?;
        cu!(cuGraphExecNodeSetParams(graphExec, node, &raw mut params))
    }

    /// A handle by which kernels decide whether a conditional node runs.
    fn cudaGraphConditionalHandleCreate(
        pHandle_out: *mut cudaGraphConditionalHandle, graph: cudaGraph_t, defaultLaunchValue: u32, flags: u32
    ) {
        cu!(cuGraphConditionalHandleCreate(pHandle_out, graph, context()?, defaultLaunchValue, flags))
    }

    /// Adds a copy into a variable.
    fn cudaGraphAddMemcpyNodeToSymbol(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
    ) {
        let copy = into_symbol(symbol, src, count, offset, kind)?;
        add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy)
    }

    /// Adds a copy out of a variable.
    fn cudaGraphAddMemcpyNodeFromSymbol(
        pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t, numDependencies: usize,
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
    ) {
        let copy = out_of_symbol(dst, symbol, count, offset, kind)?;
        add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy)
    }

    /// Makes a copy node copy into a variable.
    fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: cudaGraphNode_t, symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
    ) {
        let copy = into_symbol(symbol, src, count, offset, kind)?;
        cu!(cuGraphMemcpyNodeSetParams(node, &raw const copy))
    }

    /// Makes a copy node copy out of a variable.
    fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: cudaGraphNode_t, dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
    ) {
        let copy = out_of_symbol(dst, symbol, count, offset, kind)?;
        cu!(cuGraphMemcpyNodeSetParams(node, &raw const copy))
    }

    /// Makes a copy node of an executable graph copy into a variable.
    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, symbol: *const c_void, src: *const c_void, count: usize,
        offset: usize, kind: cudaMemcpyKind
    ) {
        let copy = into_symbol(symbol, src, count, offset, kind)?;
        cu!(cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &raw const copy, context()?))
    }

    /// Makes a copy node of an executable graph copy out of a variable.
    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, dst: *mut c_void, symbol: *const c_void, count: usize,
        offset: usize, kind: cudaMemcpyKind
    ) {
        let copy = out_of_symbol(dst, symbol, count, offset, kind)?;
        cu!(cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &raw const copy, context()?))
    }

    /// A copy node's parameters.
    fn cudaGraphMemcpyNodeGetParams(node: cudaGraphNode_t, pNodeParams: *mut cudaMemcpy3DParms) {
        ready()?;
        let mut copy = CUDA_MEMCPY3D::zeroed();
        cu!(cuGraphMemcpyNodeGetParams(node, &raw mut copy))?;
        put!(pNodeParams, runtime_copy(&copy))
    }

    /// An allocation node's parameters.
    fn cudaGraphMemAllocNodeGetParams(node: cudaGraphNode_t, params_out: *mut cudaMemAllocNodeParams) {
        ready()?;
        cu!(cuGraphMemAllocNodeGetParams(node, params_out.cast()))
    }

    /// What a freeing node frees: the out pointer is a `void **`.
    fn cudaGraphMemFreeNodeGetParams(node: cudaGraphNode_t, dptr_out: *mut c_void) {
        ready()?;
        cu!(cuGraphMemFreeNodeGetParams(node, dptr_out.cast()))
    }

    /// Copies the attributes of a kernel node.
    fn cudaGraphKernelNodeCopyAttributes(hDst: cudaGraphNode_t, hSrc: cudaGraphNode_t) {
        ready()?;
        cu!(cuGraphKernelNodeCopyAttributes(hDst, hSrc))
    }

    /// An attribute of a kernel node.
    fn cudaGraphKernelNodeGetAttribute(
        hNode: cudaGraphNode_t, attr: cudaLaunchAttributeID, value_out: *mut cudaLaunchAttributeValue
    ) {
        ready()?;
        cu!(cuGraphKernelNodeGetAttribute(hNode, CUlaunchAttributeID(attr.0), value_out.cast()))
    }

    /// Sets an attribute of a kernel node.
    fn cudaGraphKernelNodeSetAttribute(
        hNode: cudaGraphNode_t, attr: cudaLaunchAttributeID, value: *const cudaLaunchAttributeValue
    ) {
        ready()?;
        cu!(cuGraphKernelNodeSetAttribute(hNode, CUlaunchAttributeID(attr.0), value.cast()))
    }

    /// The event of a recording node.
    fn cudaGraphEventRecordNodeGetEvent(node: cudaGraphNode_t, event_out: *mut cudaEvent_t) {
        ready()?;
        cu!(cuGraphEventRecordNodeGetEvent(node, event_out))
    }

    /// Sets the event of a recording node.
    fn cudaGraphEventRecordNodeSetEvent(node: cudaGraphNode_t, event: cudaEvent_t) {
        ready()?;
        cu!(cuGraphEventRecordNodeSetEvent(node, event))
    }

    /// The event of a waiting node.
    fn cudaGraphEventWaitNodeGetEvent(node: cudaGraphNode_t, event_out: *mut cudaEvent_t) {
        ready()?;
        cu!(cuGraphEventWaitNodeGetEvent(node, event_out))
    }

    /// Sets the event of a waiting node.
    fn cudaGraphEventWaitNodeSetEvent(node: cudaGraphNode_t, event: cudaEvent_t) {
        ready()?;
        cu!(cuGraphEventWaitNodeSetEvent(node, event))
    }

    /// Sets the event of a recording node of an executable graph.
    fn cudaGraphExecEventRecordNodeSetEvent(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, event: cudaEvent_t) {
        ready()?;
        cu!(cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event))
    }

    /// Sets the event of a waiting node of an executable graph.
    fn cudaGraphExecEventWaitNodeSetEvent(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, event: cudaEvent_t) {
        ready()?;
        cu!(cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event))
    }

    /// Sets the graph of a child node of an executable graph.
    fn cudaGraphExecChildGraphNodeSetParams(
        hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, childGraph: cudaGraph_t
    ) {
        ready()?;
        cu!(cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph))
    }

    /// How much memory graphs hold.
    fn cudaDeviceGetGraphMemAttribute(device: i32, attr: cudaGraphMemAttributeType, value: *mut c_void) {
        let device = state::device_at(device)?;
        cu!(cuDeviceGetGraphMemAttribute(device, CUgraphMem_attribute(attr.0), value))
    }

    /// Resets how much memory graphs held at most.
    fn cudaDeviceSetGraphMemAttribute(device: i32, attr: cudaGraphMemAttributeType, value: *mut c_void) {
        let device = state::device_at(device)?;
        cu!(cuDeviceSetGraphMemAttribute(device, CUgraphMem_attribute(attr.0), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_as_it_was_given() {
        let (dst, src) = (pointer(0x2000), pointer(0x1000));
        let copy = row(dst, src, 24, cudaMemcpyKind::cudaMemcpyHostToDevice).unwrap();
        let parms = runtime_copy(&copy);
        assert_eq!(parms.kind, cudaMemcpyKind::cudaMemcpyHostToDevice);
        assert_eq!((parms.srcPtr.ptr, parms.dstPtr.ptr), (src, dst));
        assert_eq!(
            (parms.extent.width, parms.extent.height, parms.extent.depth),
            (24, 1, 1)
        );
    }
}
