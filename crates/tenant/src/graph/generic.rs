//! Event nodes, child graphs, generic nodes, and what hangs on graphs: user
//! objects and attributes.

use super::memory::release;
use super::nodes::{add, add_allocation, child, host, kernel, launch_of, memcpy, memset, numbers};
use super::{INVALID, executable, objects, of_node, set};
use crate::call::Call;
use crate::convert::{Answer, functions, get, list, only, put};
use crate::link::Link;
use crate::work::Work;
use driver::sys::*;
use std::ffi::c_void;
use std::sync::Arc;

/// A generic node as the device takes it.
///
/// # Safety
/// The union's member is the one that the type names.
unsafe fn generic(link: &Link, p: &CUgraphNodeParams) -> Result<Work, CUresult> {
    use CUgraphNodeType as T;
    // SAFETY: this function's promise; the older structs are prefixes.
    unsafe {
        Ok(match p.type_ {
            T::CU_GRAPH_NODE_TYPE_KERNEL => {
                let k = p.anonymous2.kernel;
                kernel(
                    link,
                    &CUDA_KERNEL_NODE_PARAMS {
                        func: k.func,
                        gridDimX: k.gridDimX,
                        gridDimY: k.gridDimY,
                        gridDimZ: k.gridDimZ,
                        blockDimX: k.blockDimX,
                        blockDimY: k.blockDimY,
                        blockDimZ: k.blockDimZ,
                        sharedMemBytes: k.sharedMemBytes,
                        kernelParams: k.kernelParams,
                        extra: k.extra,
                        kern: k.kern,
                        ctx: k.ctx,
                    },
                )?
            }
            T::CU_GRAPH_NODE_TYPE_MEMCPY => memcpy(link, &p.anonymous2.memcpy.copyParams)?,
            T::CU_GRAPH_NODE_TYPE_MEMSET => {
                let m = p.anonymous2.memset;
                memset(&CUDA_MEMSET_NODE_PARAMS {
                    dst: m.dst,
                    pitch: m.pitch,
                    value: m.value,
                    elementSize: m.elementSize,
                    width: m.width,
                    height: m.height,
                })?
            }
            T::CU_GRAPH_NODE_TYPE_HOST => {
                let h = p.anonymous2.host;
                host(&CUDA_HOST_NODE_PARAMS {
                    fn_: h.fn_,
                    userData: h.userData,
                })?
            }
            T::CU_GRAPH_NODE_TYPE_GRAPH => child(link, p.anonymous2.graph.graph)?,
            T::CU_GRAPH_NODE_TYPE_EMPTY => Work::Empty,
            T::CU_GRAPH_NODE_TYPE_WAIT_EVENT => wait(link, p.anonymous2.eventWait.event)?,
            T::CU_GRAPH_NODE_TYPE_EVENT_RECORD => record(link, p.anonymous2.eventRecord.event)?,
            other => return Err(unsupported(link, other)),
        })
    }
}

/// Says that the manager has no such nodes.
fn unsupported(link: &Link, kind: CUgraphNodeType) -> CUresult {
    link.say(&format!(
        "graph nodes of the kind {kind:?} are not supported for tenants; the call fails with CUDA_ERROR_NOT_SUPPORTED"
    ));
    CUresult::CUDA_ERROR_NOT_SUPPORTED
}

/// A node that waits for an event.
fn wait(link: &Link, event: CUevent) -> Result<Work, CUresult> {
    link.state.event(event.0)?;
    Ok(Work::Wait(event.0))
}

/// A node that records an event.
fn record(link: &Link, event: CUevent) -> Result<Work, CUresult> {
    link.state.event(event.0)?;
    Ok(Work::Record(event.0))
}

/// # Safety
/// As cuGraphAddNode documents.
unsafe fn add_generic(
    link: &'static Link,
    to: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    parameters: *mut CUgraphNodeParams,
) -> Answer {
    // SAFETY: this function's promise.
    unsafe {
        let mut wanted = get(parameters.cast_const())?;
        let before = numbers(list(after, count));
        match wanted.type_ {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                let size = wanted.anonymous2.alloc.bytesize as u64;
                let (node, address) = add_allocation(link, graph, &before, size)?;
                wanted.anonymous2.alloc.dptr = address;
                put(to, CUgraphNode(node))?;
                return put(parameters, wanted);
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE => {
                let address = wanted.anonymous2.free.dptr;
                let work = release(link, address)?;
                return add(link, to, graph, (after, count), work).map(drop);
            }
            _ => {}
        }
        let node = generic(link, &wanted)?;
        add(link, to, graph, (after, count), node).map(drop)
    }
}

/// `CU_GRAPH_USER_OBJECT_MOVE`: the caller's references become the graph's.
const OBJECT_MOVE: u32 = 1;

/// Sets the attribute of a kernel node.
fn set_cooperative(link: &Link, node: CUgraphNode, is_cooperative: bool) -> Answer {
    let mut launch = (*launch_of(link, node.0)?).clone();
    launch.is_cooperative = is_cooperative;
    let (graph, index) = super::node(link, node.0)?;
    graph.nodes.lock()[index].work = Work::Kernel(Arc::new(launch));
    Ok(())
}

functions! { link;
    fn cuGraphAddNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *mut CUgraphNodeParams,
    ) {
        add_generic(link, to, graph, after, count, parameters)
    }
    fn cuGraphAddNode_v2(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize,
        parameters: *mut CUgraphNodeParams,
    ) {
        add_generic(link, to, graph, after, count, parameters)
    }
    fn cuGraphNodeSetParams(node: CUgraphNode, parameters: *mut CUgraphNodeParams) {
        set(link, node.0, generic(link, &get(parameters.cast_const())?)?)
    }
    fn cuGraphExecNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *mut CUgraphNodeParams) {
        executable::set(link, executable.0, node.0, generic(link, &get(parameters.cast_const())?)?)
    }
    fn cuGraphAddChildGraphNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, child: CUgraph,
    ) {
        add(link, to, graph, (after, count), self::child(link, child)?).map(drop)
    }
    fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph) {
        put(graph, of_node(link, node.0, |work| match work {
            Work::Child(graph) => Some(CUgraph(graph.handle)),
            _ => None,
        })?)
    }
    fn cuGraphAddEventRecordNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent,
    ) {
        add(link, to, graph, (after, count), record(link, event)?).map(drop)
    }
    fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        put(event, of_node(link, node.0, |work| match work {
            Work::Record(event) => Some(CUevent(*event)),
            _ => None,
        })?)
    }
    fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) {
        set(link, node.0, record(link, event)?)
    }
    fn cuGraphExecEventRecordNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        executable::set(link, executable.0, node.0, record(link, event)?)
    }
    fn cuGraphAddEventWaitNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent,
    ) {
        add(link, to, graph, (after, count), wait(link, event)?).map(drop)
    }
    fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        put(event, of_node(link, node.0, |work| match work {
            Work::Wait(event) => Some(CUevent(*event)),
            _ => None,
        })?)
    }
    fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) {
        set(link, node.0, wait(link, event)?)
    }
    fn cuGraphExecEventWaitNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        executable::set(link, executable.0, node.0, wait(link, event)?)
    }
    fn cuGraphNodeSetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: u32) {
        executable::enable(link, executable.0, node.0, enabled != 0)
    }
    fn cuGraphNodeGetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: *mut u32) {
        put(enabled, u32::from(executable::is_enabled(link, executable.0, node.0)?))
    }
    fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_MEMCPY3D) {
        let copy = of_node(link, node.0, |work| match work {
            Work::Copy(copy) => Some(*copy),
            _ => None,
        })?;
        put(parameters, copy.described())
    }
    fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) {
        let is_cooperative = launch_of(link, from.0)?.is_cooperative;
        set_cooperative(link, to, is_cooperative)
    }
    fn cuGraphKernelNodeGetAttribute(node: CUgraphNode, attribute: CUkernelNodeAttrID, value: *mut CUkernelNodeAttrValue) {
        let launch = launch_of(link, node.0)?;
        let mut answer = CUkernelNodeAttrValue::zeroed();
        if attribute == CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE {
            answer.cooperative = i32::from(launch.is_cooperative);
        }
        put(value, answer)
    }
    fn cuGraphKernelNodeSetAttribute(node: CUgraphNode, attribute: CUkernelNodeAttrID, value: *const CUkernelNodeAttrValue) {
        let value = get(value)?;
        match attribute {
            CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => set_cooperative(link, node, value.cooperative != 0),
            CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                let size = value.clusterDim;
                match (size.x, size.y, size.z) {
                    (1, 1, 1) => Ok(()),
                    _ => Err(crate::launch::no_clusters(link)),
                }
            }
            // The others are hints.
            _ => launch_of(link, node.0).map(drop),
        }
    }
    fn cuUserObjectCreate(object: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, count: u32, _flags: u32) {
        if object.is_null() {
            return Err(INVALID);
        }
        put(object, CUuserObject(objects::create(link, count, Call::host(destroy, data)?)?))
    }
    fn cuUserObjectRetain(object: CUuserObject, count: u32) {
        objects::retain(link, object.0, count)
    }
    fn cuUserObjectRelease(object: CUuserObject, count: u32) {
        objects::release(link, object.0, count)
    }
    fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: u32, flags: u32) {
        objects::retain_by(link, graph.0, object.0, count, flags & OBJECT_MOVE != 0)
    }
    fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: u32) {
        objects::release_by(link, graph.0, object.0, count)
    }
    fn cuDeviceGetGraphMemAttribute(device: CUdevice, _attribute: CUgraphMem_attribute, value: *mut c_void) {
        // Memory of graphs is counted with all other memory.
        only(device)?;
        put(value.cast::<u64>(), 0)
    }
    fn cuDeviceSetGraphMemAttribute(device: CUdevice, _attribute: CUgraphMem_attribute, _value: *mut c_void) {
        only(device)
    }
}
