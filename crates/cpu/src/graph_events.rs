//! Event nodes, child graphs, generic nodes, and what hangs on graphs: user
//! objects and attributes.

use crate::convert::{Answer, functions, get, list, only, put};
use crate::graph_nodes::{add, host, kernel, memcpy, memset, numbers};
use crate::launch::ProgramFunction;
use crate::lent::UserData;
use crate::session::Cpu;
use driver::sys::*;
use emulate::device::{Condition, Device, GraphNode, HostFunction};
use std::ffi::c_void;

/// A generic node as the device takes it.
///
/// # Safety
/// The union's member is the one that the type names.
unsafe fn generic(gpu: &Device, p: &CUgraphNodeParams) -> Result<GraphNode, CUresult> {
    use CUgraphNodeType as T;
    // SAFETY: this function's promise; the older structs are prefixes.
    unsafe {
        Ok(match p.type_ {
            T::CU_GRAPH_NODE_TYPE_KERNEL => {
                let k = p.anonymous2.kernel;
                kernel(
                    gpu,
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
            T::CU_GRAPH_NODE_TYPE_MEMCPY => memcpy(gpu, &p.anonymous2.memcpy.copyParams)?,
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
            T::CU_GRAPH_NODE_TYPE_GRAPH => GraphNode::Child(p.anonymous2.graph.graph.0),
            T::CU_GRAPH_NODE_TYPE_EMPTY => GraphNode::Empty,
            T::CU_GRAPH_NODE_TYPE_WAIT_EVENT => GraphNode::Wait(p.anonymous2.eventWait.event.0),
            T::CU_GRAPH_NODE_TYPE_EVENT_RECORD => {
                GraphNode::Record(p.anonymous2.eventRecord.event.0)
            }
            _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        })
    }
}

/// Adds a conditional node; gives its parameters with its graphs.
///
/// # Safety
/// `to` is null or valid.
unsafe fn add_conditional(
    gpu: &Cpu,
    to: *mut CUgraphNode,
    graph: CUgraph,
    after: &[u64],
    mut wanted: CUDA_CONDITIONAL_NODE_PARAMS,
) -> Result<CUDA_CONDITIONAL_NODE_PARAMS, CUresult> {
    let condition = match wanted.type_ {
        CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF => Condition::If,
        CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE => Condition::While,
        CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH => Condition::Switch,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    let (node, bodies) =
        gpu.graph_add_conditional(graph.0, after, wanted.handle, condition, wanted.size)?;
    wanted.phGraph_out = gpu.lent().bodies(node, bodies);
    // SAFETY: this function's promise.
    unsafe { put(to, CUgraphNode(node)) }?;
    Ok(wanted)
}

/// # Safety
/// As cuGraphAddNode documents.
unsafe fn add_generic(
    gpu: &Cpu,
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
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL => {
                wanted.anonymous2.conditional =
                    add_conditional(gpu, to, graph, &before, wanted.anonymous2.conditional)?;
                return put(parameters, wanted);
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                let size = wanted.anonymous2.alloc.bytesize as u64;
                let (node, address) = gpu.graph_add_allocation(graph.0, &before, size)?;
                wanted.anonymous2.alloc.dptr = address;
                put(to, CUgraphNode(node))?;
                return put(parameters, wanted);
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE => {
                let address = wanted.anonymous2.free.dptr;
                return put(
                    to,
                    CUgraphNode(gpu.graph_add_release(graph.0, &before, address)?),
                );
            }
            _ => {}
        }
        let node = generic(gpu, &wanted)?;
        add(gpu, to, graph, after, count, &node).map(drop)
    }
}

/// `CU_GRAPH_USER_OBJECT_MOVE`: the caller's references become the graph's.
const OBJECT_MOVE: u32 = 1;

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`: each launch sets the value.
const ASSIGN_DEFAULT: u32 = 1;

functions! { gpu;
    fn cuGraphConditionalHandleCreate(
        handle: *mut CUgraphConditionalHandle, graph: CUgraph, _context: CUcontext, default: u32, flags: u32,
    ) {
        let default = (flags & ASSIGN_DEFAULT != 0).then_some(default);
        put(handle, gpu.condition_create(graph.0, default)?)
    }
    fn cuGraphAddNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, parameters: *mut CUgraphNodeParams,
    ) {
        add_generic(gpu, to, graph, after, count, parameters)
    }
    fn cuGraphAddNode_v2(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize,
        parameters: *mut CUgraphNodeParams,
    ) {
        add_generic(gpu, to, graph, after, count, parameters)
    }
    fn cuGraphNodeSetParams(node: CUgraphNode, parameters: *mut CUgraphNodeParams) {
        gpu.node_set(node.0, &generic(gpu, &get(parameters.cast_const())?)?)
    }
    fn cuGraphExecNodeSetParams(executable: CUgraphExec, node: CUgraphNode, parameters: *mut CUgraphNodeParams) {
        gpu.executable_set(executable.0, node.0, &generic(gpu, &get(parameters.cast_const())?)?)
    }
    fn cuGraphAddChildGraphNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, child: CUgraph,
    ) {
        add(gpu, to, graph, after, count, &GraphNode::Child(child.0)).map(drop)
    }
    fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph) {
        put(graph, CUgraph(gpu.node_child(node.0)?))
    }
    fn cuGraphAddEventRecordNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent,
    ) {
        add(gpu, to, graph, after, count, &GraphNode::Record(event.0)).map(drop)
    }
    fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        put(event, CUevent(gpu.node_recorded(node.0)?))
    }
    fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) {
        gpu.node_set(node.0, &GraphNode::Record(event.0))
    }
    fn cuGraphExecEventRecordNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        gpu.executable_set(executable.0, node.0, &GraphNode::Record(event.0))
    }
    fn cuGraphAddEventWaitNode(
        to: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent,
    ) {
        add(gpu, to, graph, after, count, &GraphNode::Wait(event.0)).map(drop)
    }
    fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        put(event, CUevent(gpu.node_awaited(node.0)?))
    }
    fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) {
        gpu.node_set(node.0, &GraphNode::Wait(event.0))
    }
    fn cuGraphExecEventWaitNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        gpu.executable_set(executable.0, node.0, &GraphNode::Wait(event.0))
    }
    fn cuGraphNodeSetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: u32) {
        gpu.executable_enable(executable.0, node.0, enabled != 0)
    }
    fn cuGraphNodeGetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: *mut u32) {
        put(enabled, u32::from(gpu.executable_enabled(executable.0, node.0)?))
    }
    fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_MEMCPY3D) {
        let copy = gpu.node_copy(node.0)?;
        let height = |side: emulate::device::Side| (side.slice / side.pitch.max(1)) as usize;
        put(parameters, CUDA_MEMCPY3D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            srcDevice: copy.from.address,
            srcPitch: copy.from.pitch as usize,
            srcHeight: height(copy.from),
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            dstDevice: copy.to.address,
            dstPitch: copy.to.pitch as usize,
            dstHeight: height(copy.to),
            WidthInBytes: copy.width as usize,
            Height: copy.height as usize,
            Depth: copy.depth as usize,
            ..CUDA_MEMCPY3D::zeroed()
        })
    }
    fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) {
        let mut launch = gpu.node_launch(to.0)?;
        let source = gpu.node_launch(from.0)?;
        launch.cluster = source.cluster;
        launch.cooperative = source.cooperative;
        gpu.node_set(to.0, &GraphNode::Kernel(launch))
    }
    fn cuGraphKernelNodeGetAttribute(node: CUgraphNode, attribute: CUkernelNodeAttrID, value: *mut CUkernelNodeAttrValue) {
        let launch = gpu.node_launch(node.0)?;
        let mut answer = CUkernelNodeAttrValue::zeroed();
        match attribute {
            CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => answer.cooperative = i32::from(launch.cooperative),
            CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                let [x, y, z] = launch.cluster;
                answer.clusterDim = CUlaunchAttributeValue_clusterDim { x, y, z };
            }
            _ => {}
        }
        put(value, answer)
    }
    fn cuGraphKernelNodeSetAttribute(node: CUgraphNode, attribute: CUkernelNodeAttrID, value: *const CUkernelNodeAttrValue) {
        let mut launch = gpu.node_launch(node.0)?;
        let value = get(value)?;
        match attribute {
            CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => launch.cooperative = value.cooperative != 0,
            CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                launch.cluster = [value.clusterDim.x, value.clusterDim.y, value.clusterDim.z];
            }
            // The others are hints.
            _ => return Ok(()),
        }
        gpu.node_set(node.0, &GraphNode::Kernel(launch))
    }
    fn cuUserObjectCreate(object: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, count: u32, _flags: u32) {
        let function = destroy.filter(|_| !object.is_null()).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let destructor = ProgramFunction { function, data: UserData(data) };
        put(object, CUuserObject(gpu.user_object_create(count, Box::new(move || destructor.call()))?))
    }
    fn cuUserObjectRetain(object: CUuserObject, count: u32) {
        gpu.user_object_retain(object.0, count)
    }
    fn cuUserObjectRelease(object: CUuserObject, count: u32) {
        gpu.user_object_release(object.0, count)
    }
    fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: u32, flags: u32) {
        gpu.graph_retain_object(graph.0, object.0, count, flags & OBJECT_MOVE != 0)
    }
    fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: u32) {
        gpu.graph_release_object(graph.0, object.0, count)
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
