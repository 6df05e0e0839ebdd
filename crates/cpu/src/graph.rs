//! Graphs as wholes: create, query, instantiate, launch.

use crate::convert::{functions, list, name, per_thread_functions, pick, put, put_if, put_list};
use crate::session::say;
use driver::sys::*;
use emulate::device::{Device, NodeKind};
use std::ffi::c_char;
use std::fmt::Write;

fn handles(nodes: Vec<u64>) -> Vec<CUgraphNode> {
    nodes.into_iter().map(CUgraphNode).collect()
}

/// The driver's number for a kind of node.
pub fn node_type(kind: NodeKind) -> CUgraphNodeType {
    match kind {
        NodeKind::Kernel => CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL,
        NodeKind::Copy => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY,
        NodeKind::Fill => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET,
        NodeKind::Host => CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST,
        NodeKind::Child => CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH,
        NodeKind::Empty => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY,
        NodeKind::Record => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        NodeKind::Wait => CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        NodeKind::Value => CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        NodeKind::Conditional => CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL,
        NodeKind::Allocate => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        NodeKind::Release => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE,
    }
}

/// Writes the edges of a graph.
///
/// # Safety
/// `count` is null or valid; the arrays are null or have room for `*count`.
unsafe fn put_edges(
    gpu: &Device,
    graph: CUgraph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    count: *mut usize,
) -> crate::convert::Answer {
    let (sources, targets): (Vec<u64>, Vec<u64>) = gpu.graph_edges(graph.0)?.into_iter().unzip();
    if count.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: this function's promise. The first call overwrites the count,
    // which says how much room both arrays have.
    unsafe {
        let mut room = count.read();
        put_list(from, &mut room, &handles(sources), CUgraphNode::NULL)?;
        put_list(to, count, &handles(targets), CUgraphNode::NULL)
    }
}

/// # Safety
/// Both point to `count` nodes.
unsafe fn change_edges(
    gpu: &Device,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
    add: bool,
) -> crate::convert::Answer {
    // SAFETY: this function's promise.
    let (from, to) = unsafe { (list(from, count), list(to, count)) };
    for (from, to) in from.iter().zip(to) {
        gpu.graph_edge(from.0, to.0, add)?;
    }
    Ok(())
}

/// A graph as Graphviz reads it.
fn dot(gpu: &Device, graph: u64) -> Result<String, CUresult> {
    let mut text = String::from("digraph graph_0 {\n");
    for node in gpu.graph_nodes(graph)? {
        let kind = gpu.node_kind(node)?;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  \"{node:#x}\" [label=\"{kind:?}\"];");
    }
    for (from, to) in gpu.graph_edges(graph)? {
        let _ = writeln!(text, "  \"{from:#x}\" -> \"{to:#x}\";");
    }
    text.push_str("}\n");
    Ok(text)
}

mod whole {
    use super::*;
    functions! { gpu;
        fn cuGraphCreate(graph: *mut CUgraph, flags: u32) {
            if flags != 0 {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            put(graph, CUgraph(gpu.graph_create()?))
        }
        fn cuGraphDestroy(graph: CUgraph) {
            gpu.graph_destroy(graph.0)
        }
        fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) {
            put(clone, CUgraph(gpu.graph_clone(graph.0)?))
        }
        fn cuGraphNodeFindInClone(found: *mut CUgraphNode, node: CUgraphNode, clone: CUgraph) {
            put(found, CUgraphNode(gpu.node_in_clone(node.0, clone.0)?))
        }
        fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType) {
            put(kind, node_type(gpu.node_kind(node.0)?))
        }
        fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &handles(gpu.graph_nodes(graph.0)?), CUgraphNode::NULL)
        }
        fn cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &handles(gpu.graph_roots(graph.0)?), CUgraphNode::NULL)
        }
        fn cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize) {
            put_edges(gpu, graph, from, to, count)
        }
        fn cuGraphGetEdges_v2(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
            if !edges.is_null() && !count.is_null() {
                edges.write_bytes(0, count.read());
            }
            put_edges(gpu, graph, from, to, count)
        }
        fn cuGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &handles(gpu.node_neighbours(node.0, false)?), CUgraphNode::NULL)
        }
        fn cuGraphNodeGetDependencies_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
            if !edges.is_null() && !count.is_null() {
                edges.write_bytes(0, count.read());
            }
            put_list(nodes, count, &handles(gpu.node_neighbours(node.0, false)?), CUgraphNode::NULL)
        }
        fn cuGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &handles(gpu.node_neighbours(node.0, true)?), CUgraphNode::NULL)
        }
        fn cuGraphNodeGetDependentNodes_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
            if !edges.is_null() && !count.is_null() {
                edges.write_bytes(0, count.read());
            }
            put_list(nodes, count, &handles(gpu.node_neighbours(node.0, true)?), CUgraphNode::NULL)
        }
        fn cuGraphAddDependencies(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) {
            change_edges(gpu, from, to, count, true)
        }
        fn cuGraphAddDependencies_v2(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize) {
            change_edges(gpu, from, to, count, true)
        }
        fn cuGraphRemoveDependencies(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) {
            change_edges(gpu, from, to, count, false)
        }
        fn cuGraphRemoveDependencies_v2(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize) {
            change_edges(gpu, from, to, count, false)
        }
        fn cuGraphDestroyNode(node: CUgraphNode) {
            gpu.graph_remove(node.0)
        }
        fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _flags: u32) {
            let path = name(path)?;
            std::fs::write(path, dot(gpu, graph.0)?).map_err(|error| {
                say(&format!("{path}: {error}"));
                CUresult::CUDA_ERROR_OPERATING_SYSTEM
            })
        }
        fn cuGraphInstantiate(executable: *mut CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, log: *mut c_char, size: usize) {
            gpu.apart_from_strict_captures()?;
            put_if(error, CUgraphNode::NULL);
            if size > 0 {
                put_if(log, 0);
            }
            put(executable, CUgraphExec(gpu.graph_instantiate(graph.0, 0)?))
        }
        fn cuGraphInstantiate_v2(executable: *mut CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, log: *mut c_char, size: usize) {
            gpu.apart_from_strict_captures()?;
            put_if(error, CUgraphNode::NULL);
            if size > 0 {
                put_if(log, 0);
            }
            put(executable, CUgraphExec(gpu.graph_instantiate(graph.0, 0)?))
        }
        fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: u64) {
            gpu.apart_from_strict_captures()?;
            put(executable, CUgraphExec(gpu.graph_instantiate(graph.0, flags)?))
        }
        fn cuGraphExecGetFlags(executable: CUgraphExec, flags: *mut u64) {
            put(flags, gpu.executable_flags(executable.0)?)
        }
        fn cuGraphExecDestroy(executable: CUgraphExec) {
            gpu.executable_destroy(executable.0)
        }
        fn cuGraphExecUpdate(executable: CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, result: *mut CUgraphExecUpdateResult) {
            let outcome = gpu.executable_update(executable.0, graph.0);
            put_if(error, CUgraphNode::NULL);
            put_if(result, update_result(&outcome));
            outcome
        }
        fn cuGraphExecUpdate_v2(executable: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo) {
            let outcome = gpu.executable_update(executable.0, graph.0);
            put_if(info, CUgraphExecUpdateResultInfo {
                result: update_result(&outcome),
                errorNode: CUgraphNode::NULL,
                errorFromNode: CUgraphNode::NULL,
            });
            outcome
        }
    }
}

fn update_result(outcome: &crate::convert::Answer) -> CUgraphExecUpdateResult {
    match outcome {
        Ok(()) => CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
        Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) => {
            CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
        }
        Err(_) => CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
    }
}

per_thread_functions! { gpu, default, register_launches;
    fn cuGraphLaunch | cuGraphLaunch_ptsz(executable: CUgraphExec, stream: CUstream) {
        gpu.graph_launch(executable.0, pick(stream, default))
    }
    fn cuGraphUpload | cuGraphUpload_ptsz(executable: CUgraphExec, stream: CUstream) {
        gpu.stream_id(pick(stream, default))?;
        gpu.executable_flags(executable.0).map(drop)
    }
    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz(
        executable: *mut CUgraphExec, graph: CUgraph, parameters: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) {
        gpu.apart_from_strict_captures()?;
        let flags = parameters.as_ref().map_or(0, |parameters| parameters.flags);
        let made = gpu.graph_instantiate(graph.0, flags);
        if let Some(parameters) = parameters.as_mut() {
            parameters.hErrNode_out = CUgraphNode::NULL;
            parameters.result_out = match made {
                Ok(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
                Err(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
            };
        }
        put(executable, CUgraphExec(made?))
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    whole::register(api);
    register_launches(api);
}
