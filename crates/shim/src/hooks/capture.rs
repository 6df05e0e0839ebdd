//! Which streams are being captured. While one is, frees and allocations reach
//! the device as the program makes them: a call that Ringfence adds could end
//! the capture.

use super::define::{hook, hooks};
use super::streams;
use crate::queries::is_capturing;
use crate::session::{self, next};
use driver::sys::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus,
};

hooks!(
    cuStreamBeginCapture,
    cuStreamBeginCapture_ptsz,
    cuStreamBeginCapture_v2,
    cuStreamBeginCapture_v2_ptsz,
    cuStreamBeginCaptureToGraph,
    cuStreamBeginCaptureToGraph_ptsz,
    cuStreamEndCapture,
    cuStreamEndCapture_ptsz,
);

fn begin_by(stream: CUstream, per_thread: bool, call: impl FnOnce() -> CUresult) -> CUresult {
    beginning(stream, per_thread);
    let Some(session) = session::get() else {
        return call();
    };
    let mut result = CUresult::CUDA_SUCCESS;
    session.captures.begin(stream.0, || {
        result = call();
        result == CUresult::CUDA_SUCCESS
    });
    if result == CUresult::CUDA_SUCCESS {
        // Launches are asked for where they go from here on.
        runtime::moment_over();
    }
    result
}

/// Does what is not the program's own while a stream may be captured: in the
/// mode that lets the calling thread do what could otherwise end a capture.
pub(super) fn relaxed<T>(work: impl FnOnce() -> T) -> T {
    let exchange = next().and_then(|api| api.cuThreadExchangeStreamCaptureMode);
    let Some(exchange) = exchange.filter(|_| is_capturing()) else {
        return work();
    };
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: a place that holds a mode.
    let exchanged = unsafe { exchange(&mut mode) };
    let done = work();
    if exchanged == CUresult::CUDA_SUCCESS {
        // SAFETY: as above; it now holds the program's mode.
        let _ = unsafe { exchange(&mut mode) };
    }
    done
}

/// A stream may be joined to a capture by what is about to be put into it.
pub(super) fn joining(stream: CUstream, per_thread: bool) {
    if is_capturing() {
        beginning(stream, per_thread);
    }
}

/// The capture of a stream is about to begin: what the guard knows of it must
/// not be asked of it any more.
fn beginning(stream: CUstream, per_thread: bool) {
    if let Some(runtime) = session::runtime() {
        runtime
            .watch()
            .stream_over(streams::name(runtime, stream, per_thread));
    }
}

/// The capture of a stream has ended, or the stream itself.
pub(super) fn ended(stream: CUstream) {
    if let Some(session) = session::get() {
        session.captures.end(stream.0);
    }
}

hook!([cuStreamBeginCapture, cuStreamBeginCapture_ptsz](stream: CUstream) |begin| {
    // SAFETY: the program's arguments.
    begin_by(stream, PER_THREAD, || unsafe { begin(stream) })
});

hook!([cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz](stream: CUstream, mode: CUstreamCaptureMode) |begin| {
    // SAFETY: the program's arguments.
    begin_by(stream, PER_THREAD, || unsafe { begin(stream, mode) })
});

hook!([cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz](
    stream: CUstream,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    edges: *const CUgraphEdgeData,
    count: usize,
    mode: CUstreamCaptureMode,
) |begin| {
    // SAFETY: the program's arguments.
    begin_by(stream, PER_THREAD, || unsafe { begin(stream, graph, dependencies, edges, count, mode) })
});

/// An end that fails may have ended the capture or not.
fn still_capturing(stream: CUstream) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a place for the answer.
    let asked = next()
        .and_then(|api| api.cuStreamIsCapturing)
        .map(|ask| unsafe { ask(stream, &mut status) });
    asked == Some(CUresult::CUDA_SUCCESS)
        && status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

hook!([cuStreamEndCapture, cuStreamEndCapture_ptsz](stream: CUstream, graph: *mut CUgraph) |end| {
    // SAFETY: the program's arguments.
    let result = unsafe { end(stream, graph) };
    if result == CUresult::CUDA_SUCCESS || !still_capturing(stream) {
        ended(stream);
    }
    result
});
