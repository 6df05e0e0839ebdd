//! Nodes of graphs: add, read, change.

use crate::convert::{functions, get, list, put};
use crate::copy;
use crate::launch::{ProgramFunction, host_function, parameters};
use crate::session::Cpu;
use driver::sys::*;
use emulate::device::{Device, Fill, GraphNode, Launch};
use std::any::Any;

/// A kernel node.
///
/// # Safety
/// As cuGraphAddKernelNode documents its struct.
pub unsafe fn kernel(
    gpu: &Device,
    from: *const CUDA_KERNEL_NODE_PARAMS,
) -> Result<GraphNode, CUresult> {
    // SAFETY: this function's promise.
    let p = unsafe { get(from) }?;
    // Kernels and functions are the same here; either field may be set.
    let function = if p.func.0 != 0 { p.func.0 } else { p.kern.0 };
    let info = gpu.function_info(function)?;
    Ok(GraphNode::Kernel(Launch {
        function,
        grid: [p.gridDimX, p.gridDimY, p.gridDimZ],
        block: [p.blockDimX, p.blockDimY, p.blockDimZ],
        cluster: [0; 3],
        dynamic_shared: p.sharedMemBytes,
        // SAFETY: this function's promise.
        parameters: unsafe { parameters(&info, p.kernelParams, p.extra) }?,
        cooperative: false,
    }))
}

/// The struct of before CUDA 12, without kernel and context.
fn current(p: &CUDA_KERNEL_NODE_PARAMS_v1) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: p.func,
        gridDimX: p.gridDimX,
        gridDimY: p.gridDimY,
        gridDimZ: p.gridDimZ,
        blockDimX: p.blockDimX,
        blockDimY: p.blockDimY,
        blockDimZ: p.blockDimZ,
        sharedMemBytes: p.sharedMemBytes,
        kernelParams: p.kernelParams,
        extra: p.extra,
        kern: CUkernel::NULL,
        ctx: CUcontext::NULL,
    }
}

fn kernel_parameters(gpu: &Cpu, node: CUgraphNode) -> Result<CUDA_KERNEL_NODE_PARAMS, CUresult> {
    let launch = gpu.node_launch(node.0)?;
    let info = gpu.function_info(launch.function)?;
    let offsets = info.parameters.iter().map(|(offset, _)| *offset);
    Ok(CUDA_KERNEL_NODE_PARAMS {
        func: CUfunction(launch.function),
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.dynamic_shared,
        kernelParams: gpu.lent().parameters(node.0, launch.parameters, offsets),
        extra: std::ptr::null_mut(),
        kern: CUkernel::NULL,
        ctx: CUcontext::NULL,
    })
}

/// A memset node.
///
/// # Safety
/// `from` is null or points to the struct.
pub unsafe fn memset(from: *const CUDA_MEMSET_NODE_PARAMS) -> Result<GraphNode, CUresult> {
    // SAFETY: this function's promise.
    let p = unsafe { get(from) }?;
    Ok(GraphNode::Fill(Fill {
        address: p.dst,
        pitch: p.pitch as u64,
        element: p.elementSize,
        value: p.value,
        width: p.width as u64,
        height: p.height as u64,
    }))
}

/// A host node.
///
/// # Safety
/// `from` is null or points to the struct.
pub unsafe fn host(from: *const CUDA_HOST_NODE_PARAMS) -> Result<GraphNode, CUresult> {
    // SAFETY: this function's promise.
    let p = unsafe { get(from) }?;
    Ok(GraphNode::Host(host_function(p.fn_, p.userData)?))
}

/// The function of a host node and its argument.
fn host_parameters(gpu: &Device, node: CUgraphNode) -> Result<CUDA_HOST_NODE_PARAMS, CUresult> {
    let function = gpu.node_host(node.0)?;
    let function: &dyn Any = &*function;
    // Callbacks of streams have other arguments.
    let program = function
        .downcast_ref::<ProgramFunction>()
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    Ok(CUDA_HOST_NODE_PARAMS {
        fn_: Some(program.function),
        userData: program.data.get(),
    })
}

/// A copy node.
///
/// # Safety
/// `from` is null or points to the struct.
pub unsafe fn memcpy(gpu: &Device, from: *const CUDA_MEMCPY3D) -> Result<GraphNode, CUresult> {
    // SAFETY: this function's promise.
    Ok(GraphNode::Copy(copy::shape_3d(gpu, &unsafe {
        get(from)
    }?)?))
}

/// Handles as the device takes them.
pub fn numbers(nodes: &[CUgraphNode]) -> Vec<u64> {
    nodes.iter().map(|node| node.0).collect()
}

/// Adds a node.
///
/// # Safety
/// `to` is null or valid; `after` is null or points to `count` nodes.
pub unsafe fn add(
    gpu: &Device,
    to: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    node: &GraphNode,
) -> Result<u64, CUresult> {
    // SAFETY: this function's promise.
    let after = numbers(unsafe { list(after, count) });
    let handle = gpu.graph_add(graph.0, node, &after)?;
    // SAFETY: this function's promise.
    unsafe { put(to, CUgraphNode(handle)) }?;
    Ok(handle)
}

functions! { gpu;
    fn cuGraphAddKernelNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        let node = kernel(gpu, &current(&get(parameters)?))?;
        add(gpu, to, graph, after, count, &node).map(drop)
    }
    fn cuGraphAddKernelNode_v2(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_KERNEL_NODE_PARAMS,
    ) {
        let node = kernel(gpu, parameters)?;
        add(gpu, to, graph, after, count, &node).map(drop)
    }
    fn cuGraphAddMemcpyNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_MEMCPY3D, _context: CUcontext,
    ) {
        let node = memcpy(gpu, parameters)?;
        add(gpu, to, graph, after, count, &node).map(drop)
    }
    fn cuGraphAddMemsetNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_MEMSET_NODE_PARAMS,
        _context: CUcontext,
    ) {
        let node = memset(parameters)?;
        add(gpu, to, graph, after, count, &node).map(drop)
    }
    fn cuGraphAddHostNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_HOST_NODE_PARAMS,
    ) {
        add(gpu, to, graph, after, count, &host(parameters)?).map(drop)
    }
    fn cuGraphAddEmptyNode(to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize) {
        add(gpu, to, graph, after, count, &GraphNode::Empty).map(drop)
    }
    fn cuGraphAddMemAllocNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) {
        let mut wanted = get(parameters.cast_const())?;
        let (node, address) = gpu.graph_add_allocation(graph.0, &numbers(list(after, count)), wanted.bytesize as u64)?;
        wanted.dptr = address;
        gpu.lent().keep_allocation(node, wanted);
        put(to, CUgraphNode(node))?;
        put(parameters, wanted)
    }
    fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS) {
        let (dptr, size) = gpu.node_allocation(node.0)?;
        let description = gpu.lent().allocation(node.0).unwrap_or_else(driver::pools::captured_allocation);
        put(parameters, CUDA_MEM_ALLOC_NODE_PARAMS { dptr, bytesize: size as usize, ..description })
    }
    fn cuGraphAddMemFreeNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, address: CUdeviceptr,
    ) {
        put(to, CUgraphNode(gpu.graph_add_release(graph.0, &numbers(list(after, count)), address)?))
    }
    fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr) {
        put(address, gpu.node_release(node.0)?)
    }
    fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS) {
        put(parameters, kernel_parameters(gpu, node)?)
    }
    fn cuGraphKernelNodeSetParams(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1) {
        gpu.node_set(node.0, &kernel(gpu, &current(&get(parameters)?))?)
    }
    fn cuGraphKernelNodeSetParams_v2(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS) {
        gpu.node_set(node.0, &kernel(gpu, parameters)?)
    }
    fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, parameters: *const CUDA_MEMCPY3D) {
        gpu.node_set(node.0, &memcpy(gpu, parameters)?)
    }
    fn cuGraphMemsetNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_MEMSET_NODE_PARAMS) {
        let fill = gpu.node_fill(node.0)?;
        put(parameters, CUDA_MEMSET_NODE_PARAMS {
            dst: fill.address,
            pitch: fill.pitch as usize,
            value: fill.value,
            elementSize: fill.element,
            width: fill.width as usize,
            height: fill.height as usize,
        })
    }
    fn cuGraphMemsetNodeSetParams(node: CUgraphNode, parameters: *const CUDA_MEMSET_NODE_PARAMS) {
        gpu.node_set(node.0, &memset(parameters)?)
    }
    fn cuGraphHostNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_HOST_NODE_PARAMS) {
        put(parameters, host_parameters(gpu, node)?)
    }
    fn cuGraphHostNodeSetParams(node: CUgraphNode, parameters: *const CUDA_HOST_NODE_PARAMS) {
        gpu.node_set(node.0, &host(parameters)?)
    }
    fn cuGraphExecKernelNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1) {
        gpu.executable_set(executable.0, node.0, &kernel(gpu, &current(&get(parameters)?))?)
    }
    fn cuGraphExecKernelNodeSetParams_v2(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS) {
        gpu.executable_set(executable.0, node.0, &kernel(gpu, parameters)?)
    }
    fn cuGraphExecMemcpyNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_MEMCPY3D, _context: CUcontext) {
        gpu.executable_set(executable.0, node.0, &memcpy(gpu, parameters)?)
    }
    fn cuGraphExecMemsetNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_MEMSET_NODE_PARAMS, _context: CUcontext) {
        gpu.executable_set(executable.0, node.0, &memset(parameters)?)
    }
    fn cuGraphExecHostNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_HOST_NODE_PARAMS) {
        gpu.executable_set(executable.0, node.0, &host(parameters)?)
    }
    fn cuGraphExecChildGraphNodeSetParams(executable: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        gpu.executable_set(executable.0, node.0, &GraphNode::Child(child.0))
    }
}
