//! Graphs as a whole: making, instantiating, launching, updating, taking apart.

use crate::generated::types::*;
use crate::state::{self, ready};
use driver::sys::{CUgraph, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode, CUuserObject};
use std::ffi::{c_char, c_void};

runtime! {
    /// A new empty graph.
    fn cudaGraphCreate(pGraph: *mut cudaGraph_t, flags: u32) {
        ready()?;
        let mut graph = CUgraph::NULL;
        cu!(cuGraphCreate(&raw mut graph, flags))?;
        put!(pGraph, graph)
    }

    /// Destroys a graph.
    fn cudaGraphDestroy(graph: cudaGraph_t) {
        ready()?;
        cu!(cuGraphDestroy(graph))
    }

    /// Makes a graph executable.
    fn cudaGraphInstantiate(pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: u64) {
        ready()?;
        let mut exec = CUgraphExec::NULL;
        cu!(cuGraphInstantiateWithFlags(&raw mut exec, graph, flags))?;
        put!(pGraphExec, exec)
    }

    /// Makes a graph executable.
    fn cudaGraphInstantiateWithFlags(pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: u64) {
        ready()?;
        let mut exec = CUgraphExec::NULL;
        cu!(cuGraphInstantiateWithFlags(&raw mut exec, graph, flags))?;
        put!(pGraphExec, exec)
    }

    /// Makes a graph executable and says what was wrong with it.
    fn cudaGraphInstantiateWithParams(
        pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, instantiateParams: *mut cudaGraphInstantiateParams
    ) {
        ready()?;
        let mut exec = CUgraphExec::NULL;
        // The parameters are laid out as the driver's.
        cu!(cuGraphInstantiateWithParams(&raw mut exec, graph, instantiateParams.cast()))?;
        put!(pGraphExec, exec)
    }

    /// Makes a graph executable; an upload in stream 0 is one in the thread's own default stream.
    [unchecked] fn cudaGraphInstantiateWithParams_ptsz(
        pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, instantiateParams: *mut cudaGraphInstantiateParams
    ) {
        ready()?;
        let mut params = *get!(instantiateParams)?;
        params.uploadStream = state::per_thread(params.uploadStream);
        let mut exec = CUgraphExec::NULL;
        let result = cu!(cuGraphInstantiateWithParams(&raw mut exec, graph, (&raw mut params).cast()));
        params.uploadStream = get!(instantiateParams)?.uploadStream;
        put!(instantiateParams, params)?;
        result?;
        put!(pGraphExec, exec)
    }

    /// Flags of an executable graph.
    fn cudaGraphExecGetFlags(graphExec: cudaGraphExec_t, flags: *mut u64) {
        ready()?;
        cu!(cuGraphExecGetFlags(graphExec, flags))
    }

    /// Enqueues a graph.
    fn cudaGraphLaunch / cudaGraphLaunch_ptsz [stream] (graphExec: cudaGraphExec_t, stream: cudaStream_t) {
        ready()?;
        cu!(cuGraphLaunch(graphExec, stream))
    }

    /// Prepares a graph's launch.
    fn cudaGraphUpload / cudaGraphUpload_ptsz [stream] (graphExec: cudaGraphExec_t, stream: cudaStream_t) {
        ready()?;
        cu!(cuGraphUpload(graphExec, stream))
    }

    /// Destroys an executable graph.
    fn cudaGraphExecDestroy(graphExec: cudaGraphExec_t) {
        ready()?;
        cu!(cuGraphExecDestroy(graphExec))
    }

    /// Makes an executable graph do what another graph does.
    fn cudaGraphExecUpdate(
        hGraphExec: cudaGraphExec_t, hGraph: cudaGraph_t, resultInfo: *mut cudaGraphExecUpdateResultInfo
    ) {
        ready()?;
        let mut info = CUgraphExecUpdateResultInfo::zeroed();
        let result = cu!(cuGraphExecUpdate_v2(hGraphExec, hGraph, &raw mut info));
        if !resultInfo.is_null() {
            put!(resultInfo, cudaGraphExecUpdateResultInfo {
                result: cudaGraphExecUpdateResult(info.result.0),
                errorNode: info.errorNode,
                errorFromNode: info.errorFromNode,
            })?;
        }
        result
    }

    /// Copies a graph.
    fn cudaGraphClone(pGraphClone: *mut cudaGraph_t, originalGraph: cudaGraph_t) {
        ready()?;
        let mut clone = CUgraph::NULL;
        cu!(cuGraphClone(&raw mut clone, originalGraph))?;
        put!(pGraphClone, clone)
    }

    /// A node's copy in a clone.
    fn cudaGraphNodeFindInClone(pNode: *mut cudaGraphNode_t, originalNode: cudaGraphNode_t, clonedGraph: cudaGraph_t) {
        ready()?;
        let mut node = CUgraphNode::NULL;
        cu!(cuGraphNodeFindInClone(&raw mut node, originalNode, clonedGraph))?;
        put!(pNode, node)
    }

    /// The nodes of a graph.
    fn cudaGraphGetNodes(graph: cudaGraph_t, nodes: *mut cudaGraphNode_t, numNodes: *mut usize) {
        ready()?;
        cu!(cuGraphGetNodes(graph, nodes, numNodes))
    }

    /// The nodes that depend on nothing.
    fn cudaGraphGetRootNodes(graph: cudaGraph_t, pRootNodes: *mut cudaGraphNode_t, pNumRootNodes: *mut usize) {
        ready()?;
        cu!(cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes))
    }

    /// The edges of a graph.
    fn cudaGraphGetEdges(
        graph: cudaGraph_t, from: *mut cudaGraphNode_t, to: *mut cudaGraphNode_t, edgeData: *mut cudaGraphEdgeData,
        numEdges: *mut usize
    ) {
        ready()?;
        cu!(cuGraphGetEdges_v2(graph, from, to, edgeData.cast(), numEdges))
    }

    /// What a node depends on.
    fn cudaGraphNodeGetDependencies(
        node: cudaGraphNode_t, pDependencies: *mut cudaGraphNode_t, edgeData: *mut cudaGraphEdgeData,
        pNumDependencies: *mut usize
    ) {
        ready()?;
        cu!(cuGraphNodeGetDependencies_v2(node, pDependencies, edgeData.cast(), pNumDependencies))
    }

    /// What depends on a node.
    fn cudaGraphNodeGetDependentNodes(
        node: cudaGraphNode_t, pDependentNodes: *mut cudaGraphNode_t, edgeData: *mut cudaGraphEdgeData,
        pNumDependentNodes: *mut usize
    ) {
        ready()?;
        cu!(cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, edgeData.cast(), pNumDependentNodes))
    }

    /// Adds edges.
    fn cudaGraphAddDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t, edgeData: *const cudaGraphEdgeData,
        numDependencies: usize
    ) {
        ready()?;
        cu!(cuGraphAddDependencies_v2(graph, from, to, edgeData.cast(), numDependencies))
    }

    /// Removes edges.
    fn cudaGraphRemoveDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t, edgeData: *const cudaGraphEdgeData,
        numDependencies: usize
    ) {
        ready()?;
        cu!(cuGraphRemoveDependencies_v2(graph, from, to, edgeData.cast(), numDependencies))
    }

    /// Removes a node.
    fn cudaGraphDestroyNode(node: cudaGraphNode_t) {
        ready()?;
        cu!(cuGraphDestroyNode(node))
    }

    /// What a node does.
    fn cudaGraphNodeGetType(node: cudaGraphNode_t, pType: *mut cudaGraphNodeType) {
        ready()?;
        cu!(cuGraphNodeGetType(node, pType.cast()))
    }

    /// Switches a node of an executable graph.
    fn cudaGraphNodeSetEnabled(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, isEnabled: u32) {
        ready()?;
        cu!(cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled))
    }

    /// Is a node of an executable graph on?
    fn cudaGraphNodeGetEnabled(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, isEnabled: *mut u32) {
        ready()?;
        cu!(cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled))
    }

    /// Draws a graph.
    fn cudaGraphDebugDotPrint(graph: cudaGraph_t, path: *const c_char, flags: u32) {
        ready()?;
        cu!(cuGraphDebugDotPrint(graph, path, flags))
    }

    /// An object that lives as long as graphs need it.
    fn cudaUserObjectCreate(
        object_out: *mut cudaUserObject_t, ptr: *mut c_void, destroy: cudaHostFn_t, initialRefcount: u32, flags: u32
    ) {
        ready()?;
        let mut object = CUuserObject::NULL;
        cu!(cuUserObjectCreate(&raw mut object, ptr, destroy, initialRefcount, flags))?;
        put!(object_out, object)
    }

    /// Adds references to a user object.
    fn cudaUserObjectRetain(object: cudaUserObject_t, count: u32) {
        ready()?;
        cu!(cuUserObjectRetain(object, count))
    }

    /// Drops references to a user object.
    fn cudaUserObjectRelease(object: cudaUserObject_t, count: u32) {
        ready()?;
        cu!(cuUserObjectRelease(object, count))
    }

    /// Adds a graph's references to a user object.
    fn cudaGraphRetainUserObject(graph: cudaGraph_t, object: cudaUserObject_t, count: u32, flags: u32) {
        ready()?;
        cu!(cuGraphRetainUserObject(graph, object, count, flags))
    }

    /// Drops a graph's references to a user object.
    fn cudaGraphReleaseUserObject(graph: cudaGraph_t, object: cudaUserObject_t, count: u32) {
        ready()?;
        cu!(cuGraphReleaseUserObject(graph, object, count))
    }
}
