//! The functions of stream capture.

use crate::capture::{self, begin, end, set_dependencies};
use crate::convert::{Answer, list, per_thread_functions, pick, put, put_if};
use crate::graph::lent::dependencies;
use crate::link::Link;
use driver::sys::*;

/// What the revisions of cuStreamGetCaptureInfo have in common.
struct InfoOut {
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    nodes: *mut *const CUgraphNode,
    count: *mut usize,
}

const NOWHERE: InfoOut = InfoOut {
    status: std::ptr::null_mut(),
    id: std::ptr::null_mut(),
    graph: std::ptr::null_mut(),
    nodes: std::ptr::null_mut(),
    count: std::ptr::null_mut(),
};

/// # Safety
/// The places are null or valid for writes.
unsafe fn info(link: &Link, stream: u32, out: InfoOut) -> Answer {
    let info = capture::info(link, stream);
    let status = match &info {
        None => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        Some(info) if info.is_valid => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        Some(_) => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    };
    // SAFETY: this function's promise.
    unsafe {
        put(out.status, status)?;
        if let Some(info) = info.filter(|info| info.is_valid) {
            put_if(out.id, info.id);
            put_if(out.graph, CUgraph(info.graph));
            put_if(out.count, info.dependencies.len());
            put_if(out.nodes, dependencies(link, stream, info.dependencies));
        }
    }
    Ok(())
}

/// Handles of nodes.
///
/// # Safety
/// `from` is null or points to `count` nodes.
unsafe fn handles(from: *const CUgraphNode, count: usize) -> Vec<u64> {
    // SAFETY: this function's promise.
    let nodes = unsafe { list(from, count) };
    nodes.iter().map(|node| node.0).collect()
}

per_thread_functions! { link, default, register_all;
    fn cuStreamBeginCapture | cuStreamBeginCapture_ptsz(stream: CUstream) {
        begin(link, pick(link, stream, default)?, None, &[], 0)
    }
    fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz(stream: CUstream, mode: CUstreamCaptureMode) {
        begin(link, pick(link, stream, default)?, None, &[], mode.0)
    }
    fn cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz(
        stream: CUstream, graph: CUgraph, after: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize, mode: CUstreamCaptureMode,
    ) {
        begin(link, pick(link, stream, default)?, Some(graph.0), &handles(after, count), mode.0)
    }
    fn cuStreamEndCapture | cuStreamEndCapture_ptsz(stream: CUstream, graph: *mut CUgraph) {
        let ended = end(link, pick(link, stream, default)?);
        put_if(graph, CUgraph(*ended.as_ref().unwrap_or(&0)));
        ended.map(drop)
    }
    fn cuStreamIsCapturing | cuStreamIsCapturing_ptsz(stream: CUstream, status: *mut CUstreamCaptureStatus) {
        info(link, pick(link, stream, default)?, InfoOut { status, ..NOWHERE })
    }
    fn cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz(stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64) {
        info(link, pick(link, stream, default)?, InfoOut { status, id, ..NOWHERE })
    }
    fn cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64, graph: *mut CUgraph, nodes: *mut *const CUgraphNode, count: *mut usize,
    ) {
        info(link, pick(link, stream, default)?, InfoOut { status, id, graph, nodes, count })
    }
    fn cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64, graph: *mut CUgraph, nodes: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData, count: *mut usize,
    ) {
        put_if(edges, std::ptr::null());
        info(link, pick(link, stream, default)?, InfoOut { status, id, graph, nodes, count })
    }
    fn cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz(stream: CUstream, nodes: *mut CUgraphNode, count: usize, flags: u32) {
        set_dependencies(link, pick(link, stream, default)?, &handles(nodes, count), flags == 0)
    }
    fn cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz(
        stream: CUstream, nodes: *mut CUgraphNode, _edges: *const CUgraphEdgeData, count: usize, flags: u32,
    ) {
        set_dependencies(link, pick(link, stream, default)?, &handles(nodes, count), flags == 0)
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    register_all(api);
}
