//! Streams and their capture.

use crate::convert::address;
use crate::error::check;
use crate::generated::types::*;
use crate::state::{self, ready};
use driver::sys::{CUlaunchAttributeID, CUresult, CUstream, CUstreamCaptureMode};
use std::ffi::c_void;

/// A callback that expects the runtime's error numbers.
struct Callback {
    function: cudaStreamCallback_t,
    data: *mut c_void,
}

/// Calls the program's callback from the driver's.
unsafe extern "C" fn call_back(stream: CUstream, status: CUresult, data: *mut c_void) {
    // SAFETY: cudaStreamAddCallback made this pointer of a Box for this one call.
    let callback = unsafe { Box::from_raw(data.cast::<Callback>()) };
    let status = check(status).err().unwrap_or(cudaError_t::cudaSuccess);
    if let Some(function) = callback.function {
        // SAFETY: the program's callback with the program's data.
        unsafe { function(stream, status, callback.data) }
    }
}

fn create(out: *mut cudaStream_t, flags: u32, priority: Option<i32>) -> Result<(), cudaError_t> {
    ready()?;
    let mut stream = CUstream::NULL;
    match priority {
        None => cu!(cuStreamCreate(&raw mut stream, flags))?,
        Some(priority) => cu!(cuStreamCreateWithPriority(&raw mut stream, flags, priority))?,
    }
    put!(out, stream)
}

runtime! {
    /// A new stream.
    fn cudaStreamCreate(pStream: *mut cudaStream_t) {
        create(pStream, 0, None)
    }

    /// A new stream that may ignore the legacy default stream.
    fn cudaStreamCreateWithFlags(pStream: *mut cudaStream_t, flags: u32) {
        create(pStream, flags, None)
    }

    /// A new stream with a priority.
    fn cudaStreamCreateWithPriority(pStream: *mut cudaStream_t, flags: u32, priority: i32) {
        create(pStream, flags, Some(priority))
    }

    /// Destroys a stream once its work is done.
    fn cudaStreamDestroy(stream: cudaStream_t) {
        ready()?;
        if stream.0 <= 2 {
            // Default streams cannot be destroyed.
            return Err(cudaError_t::cudaErrorInvalidResourceHandle);
        }
        cu!(cuStreamDestroy_v2(stream))
    }

    /// Waits for a stream.
    fn cudaStreamSynchronize / cudaStreamSynchronize_ptsz [stream] (stream: cudaStream_t) {
        ready()?;
        cu!(cuStreamSynchronize(stream))
    }

    /// Is a stream done?
    fn cudaStreamQuery / cudaStreamQuery_ptsz [stream] (stream: cudaStream_t) {
        ready()?;
        cu!(cuStreamQuery(stream))
    }

    /// Makes a stream wait for an event.
    fn cudaStreamWaitEvent / cudaStreamWaitEvent_ptsz [stream] (stream: cudaStream_t, event: cudaEvent_t, flags: u32) {
        ready()?;
        cu!(cuStreamWaitEvent(stream, event, flags))
    }

    /// Enqueues a callback that gets the stream's status.
    fn cudaStreamAddCallback / cudaStreamAddCallback_ptsz [stream] (
        stream: cudaStream_t, callback: cudaStreamCallback_t, userData: *mut c_void, flags: u32
    ) {
        ready()?;
        if callback.is_none() {
            return Err(cudaError_t::cudaErrorInvalidValue);
        }
        let data = Box::into_raw(Box::new(Callback { function: callback, data: userData }));
        cu!(cuStreamAddCallback(stream, Some(call_back), data.cast(), flags)).inspect_err(|_| {
            // SAFETY: the driver refused, so the callback never gets this Box.
            drop(unsafe { Box::from_raw(data) });
        })
    }

    /// A stream's priority.
    fn cudaStreamGetPriority / cudaStreamGetPriority_ptsz [hStream] (hStream: cudaStream_t, priority: *mut i32) {
        ready()?;
        cu!(cuStreamGetPriority(hStream, priority))
    }

    /// A stream's flags.
    fn cudaStreamGetFlags / cudaStreamGetFlags_ptsz [hStream] (hStream: cudaStream_t, flags: *mut u32) {
        ready()?;
        cu!(cuStreamGetFlags(hStream, flags))
    }

    /// A number that no other stream of the process has.
    fn cudaStreamGetId / cudaStreamGetId_ptsz [hStream] (hStream: cudaStream_t, streamId: *mut u64) {
        ready()?;
        cu!(cuStreamGetId(hStream, streamId))
    }

    /// The device of a stream.
    fn cudaStreamGetDevice / cudaStreamGetDevice_ptsz [hStream] (hStream: cudaStream_t, device: *mut i32) {
        ready()?;
        cu!(cuStreamGetDevice(hStream, device))
    }

    /// Copies attributes between streams.
    fn cudaStreamCopyAttributes(dst: cudaStream_t, src: cudaStream_t) {
        ready()?;
        cu!(cuStreamCopyAttributes(dst, src))
    }

    /// Copies attributes between streams; stream 0 is the thread's own default stream.
    [unchecked] fn cudaStreamCopyAttributes_ptsz(dst: cudaStream_t, src: cudaStream_t) {
        ready()?;
        cu!(cuStreamCopyAttributes(state::per_thread(dst), state::per_thread(src)))
    }

    /// An attribute of a stream.
    fn cudaStreamGetAttribute / cudaStreamGetAttribute_ptsz [hStream] (
        hStream: cudaStream_t, attr: cudaLaunchAttributeID, value_out: *mut cudaLaunchAttributeValue
    ) {
        ready()?;
        cu!(cuStreamGetAttribute(hStream, CUlaunchAttributeID(attr.0), value_out.cast()))
    }

    /// Sets an attribute of a stream.
    fn cudaStreamSetAttribute / cudaStreamSetAttribute_ptsz [hStream] (
        hStream: cudaStream_t, attr: cudaLaunchAttributeID, value: *const cudaLaunchAttributeValue
    ) {
        ready()?;
        cu!(cuStreamSetAttribute(hStream, CUlaunchAttributeID(attr.0), value.cast()))
    }

    /// Ties managed memory to a stream.
    fn cudaStreamAttachMemAsync / cudaStreamAttachMemAsync_ptsz [stream] (
        stream: cudaStream_t, devPtr: *mut c_void, length: usize, flags: u32
    ) {
        ready()?;
        cu!(cuStreamAttachMemAsync(stream, address(devPtr), length, flags))
    }

    /// Starts capturing a stream into a graph.
    fn cudaStreamBeginCapture / cudaStreamBeginCapture_ptsz [stream] (stream: cudaStream_t, mode: cudaStreamCaptureMode) {
        ready()?;
        cu!(cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(mode.0)))
    }

    /// Starts capturing a stream into an existing graph.
    fn cudaStreamBeginCaptureToGraph / cudaStreamBeginCaptureToGraph_ptsz [stream] (
        stream: cudaStream_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t,
        dependencyData: *const cudaGraphEdgeData, numDependencies: usize, mode: cudaStreamCaptureMode
    ) {
        ready()?;
        let mode = CUstreamCaptureMode(mode.0);
        cu!(cuStreamBeginCaptureToGraph(stream, graph, dependencies, dependencyData.cast(), numDependencies, mode))
    }

    /// Ends a capture and gives its graph.
    fn cudaStreamEndCapture / cudaStreamEndCapture_ptsz [stream] (stream: cudaStream_t, pGraph: *mut cudaGraph_t) {
        ready()?;
        cu!(cuStreamEndCapture(stream, pGraph))
    }

    /// Is a stream being captured?
    fn cudaStreamIsCapturing / cudaStreamIsCapturing_ptsz [stream] (
        stream: cudaStream_t, pCaptureStatus: *mut cudaStreamCaptureStatus
    ) {
        ready()?;
        cu!(cuStreamIsCapturing(stream, pCaptureStatus.cast()))
    }

    /// The state of a capture.
    fn cudaStreamGetCaptureInfo / cudaStreamGetCaptureInfo_ptsz [stream] (
        stream: cudaStream_t, captureStatus_out: *mut cudaStreamCaptureStatus, id_out: *mut u64,
        graph_out: *mut cudaGraph_t, dependencies_out: *mut *const cudaGraphNode_t,
        edgeData_out: *mut *const cudaGraphEdgeData, numDependencies_out: *mut usize
    ) {
        ready()?;
        cu!(cuStreamGetCaptureInfo_v3(
            stream, captureStatus_out.cast(), id_out, graph_out, dependencies_out, edgeData_out.cast(), numDependencies_out
        ))
    }

    /// Changes what the next captured node depends on.
    fn cudaStreamUpdateCaptureDependencies / cudaStreamUpdateCaptureDependencies_ptsz [stream] (
        stream: cudaStream_t, dependencies: *mut cudaGraphNode_t, dependencyData: *const cudaGraphEdgeData,
        numDependencies: usize, flags: u32
    ) {
        ready()?;
        cu!(cuStreamUpdateCaptureDependencies_v2(stream, dependencies, dependencyData.cast(), numDependencies, flags))
    }

    /// Swaps the thread's capture mode.
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut cudaStreamCaptureMode) {
        state::initialised()?;
        cu!(cuThreadExchangeStreamCaptureMode(mode.cast()))
    }

    /// The range of priorities.
    fn cudaDeviceGetStreamPriorityRange(leastPriority: *mut i32, greatestPriority: *mut i32) {
        ready()?;
        cu!(cuCtxGetStreamPriorityRange(leastPriority, greatestPriority))
    }
}
