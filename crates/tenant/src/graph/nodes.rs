//! Nodes of graphs: add, read, change.

use super::memory::{allocation, release};
use super::{INVALID, executable, find, of_node, set};
use crate::call::Call;
use crate::convert::{functions, get, list, put};
use crate::copy;
use crate::launch::Launch;
use crate::link::Link;
use crate::transfer::Fill;
use crate::work::Work;
use driver::arguments::parameters;
use driver::sys::*;
use std::sync::Arc;

/// A kernel node.
///
/// # Safety
/// As cuGraphAddKernelNode documents its struct.
pub(super) unsafe fn kernel(
    link: &Link,
    from: *const CUDA_KERNEL_NODE_PARAMS,
) -> Result<Work, CUresult> {
    // SAFETY: this function's promise.
    let p = unsafe { get(from) }?;
    // Kernels and functions are the same here; either field may be set.
    let function = if p.func.0 != 0 { p.func.0 } else { p.kern.0 };
    let kernel = link.state.kernel(function)?;
    let (places, bytes) = (&kernel.parameters, kernel.parameter_bytes);
    Ok(Work::Kernel(Arc::new(Launch {
        // SAFETY: this function's promise.
        parameters: unsafe { parameters(places, bytes, p.kernelParams, p.extra) }?,
        kernel,
        function,
        grid: [p.gridDimX, p.gridDimY, p.gridDimZ],
        block: [p.blockDimX, p.blockDimY, p.blockDimZ],
        shared: p.sharedMemBytes,
        is_cooperative: false,
    })))
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

/// The launch of a kernel node.
pub(super) fn launch_of(link: &Link, node: u64) -> Result<Arc<Launch>, CUresult> {
    of_node(link, node, |work| match work {
        Work::Kernel(launch) => Some(Arc::clone(launch)),
        _ => None,
    })
}

fn kernel_parameters(link: &Link, node: CUgraphNode) -> Result<CUDA_KERNEL_NODE_PARAMS, CUresult> {
    let launch = launch_of(link, node.0)?;
    let offsets = launch.kernel.parameters.iter().map(|(offset, _)| *offset);
    let lent = &link.state.graphs.lent;
    Ok(CUDA_KERNEL_NODE_PARAMS {
        func: CUfunction(launch.function),
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.shared,
        kernelParams: lent.parameters(node.0, launch.parameters.clone(), offsets),
        extra: std::ptr::null_mut(),
        kern: CUkernel::NULL,
        ctx: CUcontext::NULL,
    })
}

/// A memset node.
///
/// # Safety
/// `from` is null or points to the struct.
pub(super) unsafe fn memset(from: *const CUDA_MEMSET_NODE_PARAMS) -> Result<Work, CUresult> {
    // SAFETY: this function's promise.
    let p = unsafe { get(from) }?;
    Ok(Work::Fill(Fill {
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
pub(super) unsafe fn host(from: *const CUDA_HOST_NODE_PARAMS) -> Result<Work, CUresult> {
    // SAFETY: this function's promise.
    let p = unsafe { get(from) }?;
    Ok(Work::Call(Call::host(p.fn_, p.userData)?))
}

/// The function of a host node and its argument.
fn host_parameters(link: &Link, node: CUgraphNode) -> Result<CUDA_HOST_NODE_PARAMS, CUresult> {
    of_node(link, node.0, |work| match work {
        Work::Call(Call::Host(function, data)) => Some(CUDA_HOST_NODE_PARAMS {
            fn_: Some(*function),
            userData: data.0,
        }),
        // Callbacks of streams have other arguments.
        _ => None,
    })
}

/// The memset of a node.
fn fill_of(link: &Link, node: CUgraphNode) -> Result<Fill, CUresult> {
    of_node(link, node.0, |work| match work {
        Work::Fill(fill) => Some(*fill),
        _ => None,
    })
}

/// A copy node.
///
/// # Safety
/// `from` is null or points to the struct.
pub(super) unsafe fn memcpy(link: &Link, from: *const CUDA_MEMCPY3D) -> Result<Work, CUresult> {
    // SAFETY: this function's promise.
    Ok(Work::Copy(copy::shape_3d(link, &unsafe { get(from) }?)?))
}

/// A child graph.
pub(super) fn child(link: &Link, graph: CUgraph) -> Result<Work, CUresult> {
    let graph = find(link, graph.0)?;
    graph.sorted().ok_or(INVALID)?;
    Ok(Work::Child(graph))
}

/// Handles as the device takes them.
pub(super) fn numbers(nodes: &[CUgraphNode]) -> Vec<u64> {
    nodes.iter().map(|node| node.0).collect()
}

/// Adds a node.
///
/// # Safety
/// `to` is null or valid; `after` is null or points to `count` nodes.
pub(super) unsafe fn add(
    link: &Link,
    to: *mut CUgraphNode,
    graph: CUgraph,
    (after, count): (*const CUgraphNode, usize),
    node: Work,
) -> Result<u64, CUresult> {
    // SAFETY: this function's promise.
    let after = numbers(unsafe { list(after, count) });
    let handle = super::add(link, graph.0, node, &after)?;
    // SAFETY: this function's promise.
    unsafe { put(to, CUgraphNode(handle)) }?;
    Ok(handle)
}

/// Adds an allocation node; its handle and the address.
pub(super) fn add_allocation(
    link: &'static Link,
    graph: CUgraph,
    after: &[u64],
    size: u64,
) -> Result<(u64, u64), CUresult> {
    find(link, graph.0)?;
    let (address, work) = allocation(link, size)?;
    Ok((super::add(link, graph.0, work, after)?, address))
}

functions! { link;
    fn cuGraphAddKernelNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        let node = kernel(link, &current(&get(parameters)?))?;
        add(link, to, graph, (after, count), node).map(drop)
    }
    fn cuGraphAddKernelNode_v2(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_KERNEL_NODE_PARAMS,
    ) {
        let node = kernel(link, parameters)?;
        add(link, to, graph, (after, count), node).map(drop)
    }
    fn cuGraphAddMemcpyNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_MEMCPY3D, _context: CUcontext,
    ) {
        let node = memcpy(link, parameters)?;
        add(link, to, graph, (after, count), node).map(drop)
    }
    fn cuGraphAddMemsetNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_MEMSET_NODE_PARAMS,
        _context: CUcontext,
    ) {
        let node = memset(parameters)?;
        add(link, to, graph, (after, count), node).map(drop)
    }
    fn cuGraphAddHostNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *const CUDA_HOST_NODE_PARAMS,
    ) {
        add(link, to, graph, (after, count), host(parameters)?).map(drop)
    }
    fn cuGraphAddEmptyNode(to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize) {
        add(link, to, graph, (after, count), Work::Empty).map(drop)
    }
    fn cuGraphAddMemAllocNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) {
        let mut wanted = get(parameters.cast_const())?;
        let (node, address) = add_allocation(link, graph, &numbers(list(after, count)), wanted.bytesize as u64)?;
        wanted.dptr = address;
        link.state.graphs.lent.keep_allocation(node, wanted);
        put(to, CUgraphNode(node))?;
        put(parameters, wanted)
    }
    fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS) {
        let (dptr, size) = of_node(link, node.0, |work| match work {
            Work::Allocate(memory) => Some((memory.address, memory.size)),
            _ => None,
        })?;
        let description = link.state.graphs.lent.allocation(node.0).unwrap_or_else(driver::pools::captured_allocation);
        put(parameters, CUDA_MEM_ALLOC_NODE_PARAMS { dptr, bytesize: size as usize, ..description })
    }
    fn cuGraphAddMemFreeNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, address: CUdeviceptr,
    ) {
        let work = release(link, address)?;
        add(link, to, graph, (after, count), work).map(drop)
    }
    fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr) {
        put(address, of_node(link, node.0, |work| match work {
            Work::Release(address, _) => Some(*address),
            _ => None,
        })?)
    }
    fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS) {
        put(parameters, kernel_parameters(link, node)?)
    }
    fn cuGraphKernelNodeSetParams(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1) {
        set(link, node.0, kernel(link, &current(&get(parameters)?))?)
    }
    fn cuGraphKernelNodeSetParams_v2(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS) {
        set(link, node.0, kernel(link, parameters)?)
    }
    fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, parameters: *const CUDA_MEMCPY3D) {
        set(link, node.0, memcpy(link, parameters)?)
    }
    fn cuGraphMemsetNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_MEMSET_NODE_PARAMS) {
        let fill = fill_of(link, node)?;
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
        set(link, node.0, memset(parameters)?)
    }
    fn cuGraphHostNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_HOST_NODE_PARAMS) {
        put(parameters, host_parameters(link, node)?)
    }
    fn cuGraphHostNodeSetParams(node: CUgraphNode, parameters: *const CUDA_HOST_NODE_PARAMS) {
        set(link, node.0, host(parameters)?)
    }
    fn cuGraphExecKernelNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1) {
        executable::set(link, executable.0, node.0, kernel(link, &current(&get(parameters)?))?)
    }
    fn cuGraphExecKernelNodeSetParams_v2(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS) {
        executable::set(link, executable.0, node.0, kernel(link, parameters)?)
    }
    fn cuGraphExecMemcpyNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_MEMCPY3D, _context: CUcontext) {
        executable::set(link, executable.0, node.0, memcpy(link, parameters)?)
    }
    fn cuGraphExecMemsetNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_MEMSET_NODE_PARAMS, _context: CUcontext) {
        executable::set(link, executable.0, node.0, memset(parameters)?)
    }
    fn cuGraphExecHostNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_HOST_NODE_PARAMS) {
        executable::set(link, executable.0, node.0, host(parameters)?)
    }
    fn cuGraphExecChildGraphNodeSetParams(executable: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        executable::set(link, executable.0, node.0, super::nodes::child(link, child)?)
    }
}
