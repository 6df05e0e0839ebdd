//! Memory that graphs allocate and free: it is there from a launch of the graph
//! that allocates it to one of a graph that frees it. Its address is that of the
//! node, launch after launch.

use super::streams;
use crate::session::next;
use crate::state::GraphMemory;
use driver::sys::{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1, CUgraph, CUgraphNode, CUgraphNodeType, CUresult, CUstream,
};
use model::{AllocationKind, DeviceAddress, Extent};
use runtime::{FreeCall, FreeRequest, Runtime};

/// The nodes of a graph; none if the device does not say.
pub(super) fn nodes_of(graph: CUgraph) -> Vec<CUgraphNode> {
    let Some(list) = next().and_then(|api| api.cuGraphGetNodes) else {
        return Vec::new();
    };
    let mut count = 0;
    // SAFETY: a graph that was just instantiated; a place for the count.
    if unsafe { list(graph, std::ptr::null_mut(), &mut count) } != CUresult::CUDA_SUCCESS {
        return Vec::new();
    }
    let mut handles = vec![CUgraphNode::NULL; count];
    // SAFETY: room for as many as there are.
    if unsafe { list(graph, handles.as_mut_ptr(), &mut count) } != CUresult::CUDA_SUCCESS {
        return Vec::new();
    }
    handles.truncate(count);
    handles
}

/// What a launch of a graph allocates and frees.
pub(super) fn of(runtime: &Runtime, graph: CUgraph) -> GraphMemory {
    let mut memory = GraphMemory::default();
    let Some(api) = next() else {
        return memory;
    };
    let (Some(kind_of), Some(allocation_of), Some(freed_by)) = (
        api.cuGraphNodeGetType,
        api.cuGraphMemAllocNodeGetParams,
        api.cuGraphMemFreeNodeGetParams,
    ) else {
        return memory;
    };
    for node in nodes_of(graph) {
        let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: a node of the graph, and a place for the answer.
        if unsafe { kind_of(node, &mut kind) } != CUresult::CUDA_SUCCESS {
            continue;
        }
        match kind {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                let mut how = CUDA_MEM_ALLOC_NODE_PARAMS_v1::zeroed();
                // SAFETY: as above.
                if unsafe { allocation_of(node, &mut how) } == CUresult::CUDA_SUCCESS {
                    let base = DeviceAddress(how.dptr);
                    let size = how.bytesize as u64;
                    // Without what was asked for in addition.
                    let known = runtime.allocations().extent_of(base);
                    let known = known.filter(|extent| extent.base == base && extent.size <= size);
                    memory
                        .allocates
                        .push(known.unwrap_or(Extent { base, size }));
                }
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE => {
                let mut address = 0;
                // SAFETY: as above.
                if unsafe { freed_by(node, &mut address) } == CUresult::CUDA_SUCCESS {
                    memory.frees.push(DeviceAddress(address));
                }
            }
            _ => {}
        }
    }
    memory
}

/// Before a launch: what the graph allocates is there.
pub(super) fn launching(runtime: &Runtime, memory: &GraphMemory) {
    let allocations = runtime.allocations();
    for extent in &memory.allocates {
        if allocations.belongs_to(extent.base).is_none() {
            allocations.allocated(AllocationKind::Pool, *extent);
        }
    }
}

/// After a launch: what the graph frees is gone, for all that the stream does
/// from now on.
pub(super) fn launched(
    runtime: &Runtime,
    memory: &GraphMemory,
    (stream, per_thread): (CUstream, bool),
) {
    for &address in &memory.frees {
        let is_there = runtime.allocations().belongs_to(address);
        if is_there.is_none_or(|allocation| allocation.is_own) {
            continue;
        }
        let Some(stream) = streams::in_use(runtime, stream, per_thread) else {
            return;
        };
        let request = FreeRequest {
            function: "cuGraphLaunch",
            call: FreeCall::FreeAsync { stream },
            address,
            capturing: false,
        };
        // The graph itself does it.
        runtime.frees().free(request, &|_| CUresult::CUDA_SUCCESS);
    }
}
