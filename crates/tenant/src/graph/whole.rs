//! Graphs as wholes: create, query, instantiate, launch.

use super::executable::{self, kind};
use super::{Graph, INVALID, change_edge, cloned, create, destroy, find, node, of_node, remove};
use crate::convert::{
    Answer, functions, list, name, per_thread_functions, pick, put, put_if, put_list,
};
use crate::link::Link;
use driver::sys::*;
use std::ffi::c_char;
use std::fmt::Write;

/// The live nodes of a graph for which this holds.
fn nodes_of(
    graph: &Graph,
    which: impl Fn(&super::Node, &[super::Node]) -> bool,
) -> Vec<CUgraphNode> {
    let nodes = graph.nodes.lock();
    let found = nodes
        .iter()
        .filter(|node| node.is_alive && which(node, &nodes));
    found.map(|node| CUgraphNode(node.handle)).collect()
}

/// `cuGraphGetNodes`, or only those that depend on none.
fn nodes(link: &Link, graph: u64, only_roots: bool) -> Result<Vec<CUgraphNode>, CUresult> {
    Ok(nodes_of(&*find(link, graph)?, |node, all| {
        !only_roots || node.after.iter().all(|index| !all[*index].is_alive)
    }))
}

/// `cuGraphGetEdges`: (from, to).
fn edges(link: &Link, graph: u64) -> Result<Vec<(CUgraphNode, CUgraphNode)>, CUresult> {
    let graph = find(link, graph)?;
    let nodes = graph.nodes.lock();
    let mut edges = Vec::new();
    for node in nodes.iter().filter(|node| node.is_alive) {
        let before = node.after.iter().map(|index| &nodes[*index]);
        let before = before.filter(|before| before.is_alive);
        edges.extend(before.map(|before| (CUgraphNode(before.handle), CUgraphNode(node.handle))));
    }
    Ok(edges)
}

/// `cuGraphNodeGetDependencies`, or with `dependents` the nodes that depend on it.
fn neighbours(link: &Link, handle: u64, dependents: bool) -> Result<Vec<CUgraphNode>, CUresult> {
    let (graph, index) = node(link, handle)?;
    let own = graph.nodes.lock()[index].after.clone();
    Ok(nodes_of(&graph, |node, all| match dependents {
        true => node.after.contains(&index),
        false => own.iter().any(|before| all[*before].handle == node.handle),
    }))
}

/// `cuGraphNodeFindInClone`: clones keep positions.
fn find_in_clone(link: &Link, original: u64, clone: u64) -> Result<u64, CUresult> {
    let (_, index) = node(link, original)?;
    let found = find(link, clone)?.handles(&[index]);
    found.first().copied().ok_or(INVALID)
}

/// Writes the edges of a graph.
///
/// # Safety
/// `count` is null or valid; the arrays are null or have room for `*count`.
unsafe fn put_edges(
    link: &Link,
    graph: CUgraph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    count: *mut usize,
) -> Answer {
    let (sources, targets): (Vec<_>, Vec<_>) = edges(link, graph.0)?.into_iter().unzip();
    if count.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: this function's promise. The first call overwrites the count,
    // which says how much room both arrays have.
    unsafe {
        let mut room = count.read();
        put_list(from, &mut room, &sources, CUgraphNode::NULL)?;
        put_list(to, count, &targets, CUgraphNode::NULL)
    }
}

/// # Safety
/// Both point to `count` nodes.
unsafe fn change_edges(
    link: &Link,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
    add: bool,
) -> Answer {
    // SAFETY: this function's promise.
    let (from, to) = unsafe { (list(from, count), list(to, count)) };
    for (from, to) in from.iter().zip(to) {
        change_edge(link, from.0, to.0, add)?;
    }
    Ok(())
}

/// A graph as Graphviz reads it.
fn dot(link: &Link, graph: u64) -> Result<String, CUresult> {
    let mut text = String::from("digraph graph_0 {\n");
    for node in nodes(link, graph, false)? {
        let kind = of_node(link, node.0, |work| Some(kind(work)))?;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  \"{:#x}\" [label=\"{kind:?}\"];", node.0);
    }
    for (from, to) in edges(link, graph)? {
        let _ = writeln!(text, "  \"{:#x}\" -> \"{:#x}\";", from.0, to.0);
    }
    text.push_str("}\n");
    Ok(text)
}

mod made {
    use super::*;
    functions! { link;
        fn cuGraphCreate(graph: *mut CUgraph, flags: u32) {
            if flags != 0 {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            put(graph, CUgraph(create(link)?.handle))
        }
        fn cuGraphDestroy(graph: CUgraph) {
            destroy(link, graph.0)
        }
        fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) {
            put(clone, CUgraph(cloned(link, &*find(link, graph.0)?)?.handle))
        }
        fn cuGraphNodeFindInClone(found: *mut CUgraphNode, node: CUgraphNode, clone: CUgraph) {
            put(found, CUgraphNode(find_in_clone(link, node.0, clone.0)?))
        }
        fn cuGraphNodeGetType(node: CUgraphNode, to: *mut CUgraphNodeType) {
            put(to, of_node(link, node.0, |work| Some(kind(work)))?)
        }
        fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &crate::graph::whole::nodes(link, graph.0, false)?, CUgraphNode::NULL)
        }
        fn cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &crate::graph::whole::nodes(link, graph.0, true)?, CUgraphNode::NULL)
        }
        fn cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize) {
            put_edges(link, graph, from, to, count)
        }
        fn cuGraphGetEdges_v2(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
            if !edges.is_null() && !count.is_null() {
                edges.write_bytes(0, count.read());
            }
            put_edges(link, graph, from, to, count)
        }
        fn cuGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &neighbours(link, node.0, false)?, CUgraphNode::NULL)
        }
        fn cuGraphNodeGetDependencies_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
            if !edges.is_null() && !count.is_null() {
                edges.write_bytes(0, count.read());
            }
            put_list(nodes, count, &neighbours(link, node.0, false)?, CUgraphNode::NULL)
        }
        fn cuGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) {
            put_list(nodes, count, &neighbours(link, node.0, true)?, CUgraphNode::NULL)
        }
        fn cuGraphNodeGetDependentNodes_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
            if !edges.is_null() && !count.is_null() {
                edges.write_bytes(0, count.read());
            }
            put_list(nodes, count, &neighbours(link, node.0, true)?, CUgraphNode::NULL)
        }
        fn cuGraphAddDependencies(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) {
            change_edges(link, from, to, count, true)
        }
        fn cuGraphAddDependencies_v2(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize) {
            change_edges(link, from, to, count, true)
        }
        fn cuGraphRemoveDependencies(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) {
            change_edges(link, from, to, count, false)
        }
        fn cuGraphRemoveDependencies_v2(_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize) {
            change_edges(link, from, to, count, false)
        }
        fn cuGraphDestroyNode(node: CUgraphNode) {
            remove(link, node.0)
        }
        fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _flags: u32) {
            let path = name(path)?;
            std::fs::write(path, dot(link, graph.0)?).map_err(|error| {
                link.say(&format!("{path}: {error}"));
                CUresult::CUDA_ERROR_OPERATING_SYSTEM
            })
        }
        fn cuGraphInstantiate(executable: *mut CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, log: *mut c_char, size: usize) {
            crate::capture::check_strict(link)?;
            put_if(error, CUgraphNode::NULL);
            if size > 0 {
                put_if(log, 0);
            }
            put(executable, CUgraphExec(executable::instantiate(link, graph.0, 0)?))
        }
        fn cuGraphInstantiate_v2(executable: *mut CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, log: *mut c_char, size: usize) {
            crate::capture::check_strict(link)?;
            put_if(error, CUgraphNode::NULL);
            if size > 0 {
                put_if(log, 0);
            }
            put(executable, CUgraphExec(executable::instantiate(link, graph.0, 0)?))
        }
        fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: u64) {
            crate::capture::check_strict(link)?;
            put(executable, CUgraphExec(executable::instantiate(link, graph.0, flags)?))
        }
        fn cuGraphExecGetFlags(executable: CUgraphExec, flags: *mut u64) {
            put(flags, executable::get(link, executable.0)?.flags)
        }
        fn cuGraphExecDestroy(executable: CUgraphExec) {
            executable::destroy(link, executable.0)
        }
        fn cuGraphExecUpdate(executable: CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, result: *mut CUgraphExecUpdateResult) {
            let outcome = executable::update(link, executable.0, graph.0);
            put_if(error, CUgraphNode::NULL);
            put_if(result, update_result(&outcome));
            outcome
        }
        fn cuGraphExecUpdate_v2(executable: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo) {
            let outcome = executable::update(link, executable.0, graph.0);
            put_if(info, CUgraphExecUpdateResultInfo {
                result: update_result(&outcome),
                errorNode: CUgraphNode::NULL,
                errorFromNode: CUgraphNode::NULL,
            });
            outcome
        }
    }
}

fn update_result(outcome: &Answer) -> CUgraphExecUpdateResult {
    match outcome {
        Ok(()) => CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
        Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) => {
            CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
        }
        Err(_) => CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
    }
}

per_thread_functions! { link, default, register_launches;
    fn cuGraphLaunch | cuGraphLaunch_ptsz(executable: CUgraphExec, stream: CUstream) {
        executable::launch(link, executable.0, pick(link, stream, default)?)
    }
    fn cuGraphUpload | cuGraphUpload_ptsz(executable: CUgraphExec, stream: CUstream) {
        pick(link, stream, default)?;
        executable::get(link, executable.0).map(drop)
    }
    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz(
        executable: *mut CUgraphExec, graph: CUgraph, parameters: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) {
        crate::capture::check_strict(link)?;
        let flags = parameters.as_ref().map_or(0, |parameters| parameters.flags);
        let made = executable::instantiate(link, graph.0, flags);
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
pub(crate) fn register(api: &mut driver::Api) {
    made::register(api);
    register_launches(api);
}
