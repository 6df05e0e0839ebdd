//! What orders streams: events, everything else that is put into one, and their
//! ends. Only the order of launches, frees and allocations matters, so all other
//! work is taken to order more than it does.

use super::define::{hook, hooks};
use super::{capture, streams};
use crate::queries::{is_capturing, outside_captures};
use crate::session;
use driver::sys::{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUarrayMapInfo,
    CUdevice, CUdeviceptr, CUevent, CUexternalSemaphore, CUgraphExec, CUgraphicsResource, CUhostFn,
    CUmemDecompressParams, CUmemLocation, CUresult, CUstream, CUstreamCallback,
};
use runtime::{Ordering, StreamName, StreamUse};
use std::ffi::c_void;

hooks!(
    cuStreamDestroy,
    cuStreamDestroy_v2,
    cuEventRecord,
    cuEventRecord_ptsz,
    cuEventRecordWithFlags,
    cuEventRecordWithFlags_ptsz,
    cuStreamWaitEvent,
    cuStreamWaitEvent_ptsz,
    cuEventDestroy,
    cuEventDestroy_v2,
    cuLaunchHostFunc,
    cuLaunchHostFunc_ptsz,
    cuStreamAddCallback,
    cuStreamAddCallback_ptsz,
    cuStreamAttachMemAsync,
    cuStreamAttachMemAsync_ptsz,
    cuMemPrefetchAsync,
    cuMemPrefetchAsync_ptsz,
    cuMemPrefetchAsync_v2,
    cuMemPrefetchAsync_v2_ptsz,
    cuMemPrefetchBatchAsync,
    cuMemPrefetchBatchAsync_ptsz,
    cuMemDiscardBatchAsync,
    cuMemDiscardBatchAsync_ptsz,
    cuMemDiscardAndPrefetchBatchAsync,
    cuMemDiscardAndPrefetchBatchAsync_ptsz,
    cuSignalExternalSemaphoresAsync,
    cuSignalExternalSemaphoresAsync_ptsz,
    cuWaitExternalSemaphoresAsync,
    cuWaitExternalSemaphoresAsync_ptsz,
    cuGraphicsMapResources,
    cuGraphicsMapResources_ptsz,
    cuGraphicsUnmapResources,
    cuGraphicsUnmapResources_ptsz,
    cuMemMapArrayAsync,
    cuMemMapArrayAsync_ptsz,
    cuMemBatchDecompressAsync,
    cuMemBatchDecompressAsync_ptsz,
    cuGraphUpload,
    cuGraphUpload_ptsz,
);

/// Reports an event's part in the order: `of` the stream, where it is known
/// and the call has taken effect there, else `unknown`.
fn tell(
    took_effect: bool,
    stream: CUstream,
    per_thread: bool,
    of: impl FnOnce(StreamUse) -> Ordering,
    unknown: Ordering,
) {
    if let Some(runtime) = session::runtime().filter(|runtime| runtime.streams().are_tracked()) {
        let known = (took_effect && !is_capturing())
            .then(|| streams::in_use(runtime, stream, per_thread))
            .flatten();
        runtime.streams().ordered(known.map_or(unknown, of));
    }
}

/// Says what an event stands for now.
fn recorded(result: CUresult, event: CUevent, stream: CUstream, per_thread: bool) -> CUresult {
    let done = result == CUresult::CUDA_SUCCESS;
    let record = |stream| Ordering::Record(event.0, stream);
    tell(
        done,
        stream,
        per_thread,
        record,
        Ordering::UnknownEvent(event.0),
    );
    result
}

/// Says that a stream waits for an event.
fn waits(result: CUresult, stream: CUstream, event: CUevent, per_thread: bool) -> CUresult {
    // One that failed is taken for one too: too much order raises no alarm.
    let wait = |stream| Ordering::Wait(event.0, stream);
    tell(true, stream, per_thread, wait, Ordering::Everything);
    result
}

hook!([cuEventRecord, cuEventRecord_ptsz](event: CUevent, stream: CUstream) |record| {
    // SAFETY: the program's arguments.
    recorded(unsafe { record(event, stream) }, event, stream, PER_THREAD)
});

hook!([cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz](event: CUevent, stream: CUstream, flags: u32) |record| {
    // SAFETY: the program's arguments.
    recorded(unsafe { record(event, stream, flags) }, event, stream, PER_THREAD)
});

hook!([cuStreamWaitEvent, cuStreamWaitEvent_ptsz](stream: CUstream, event: CUevent, flags: u32) |wait| {
    capture::joining(stream, PER_THREAD);
    // SAFETY: the program's arguments.
    waits(unsafe { wait(stream, event, flags) }, stream, event, PER_THREAD)
});

hook!([cuEventDestroy, cuEventDestroy_v2](event: CUevent) |destroy| {
    // SAFETY: the program's arguments.
    let result = unsafe { destroy(event) };
    if let Some(runtime) = session::runtime() {
        runtime.streams().ordered(Ordering::UnknownEvent(event.0));
    }
    result
});

/// Before work that orders all that comes before and after, and that may write to memory
/// at any address.
pub(super) fn before_unknown() {
    streams::order_everything();
    if let Some(runtime) = session::runtime() {
        runtime.launcher().before_unchecked();
    }
}

/// Work that is not distinguished: everything before comes before everything
/// after.
macro_rules! orders {
    ($([$($symbol:ident),*]($($argument:ident: $type:ty),*);)*) => {
        $(hook!([$($symbol),*]($($argument: $type),*) |call| {
            before_unknown();
            // SAFETY: the program's arguments.
            unsafe { call($($argument),*) }
        });)*
    };
}

orders! {
    [cuLaunchHostFunc, cuLaunchHostFunc_ptsz](a: CUstream, b: CUhostFn, c: *mut c_void);
    [cuStreamAddCallback, cuStreamAddCallback_ptsz](a: CUstream, b: CUstreamCallback, c: *mut c_void, d: u32);
    [cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz](a: CUstream, b: CUdeviceptr, c: usize, d: u32);
    [cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz](a: CUdeviceptr, b: usize, c: CUdevice, d: CUstream);
    [cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz](a: CUdeviceptr, b: usize, c: CUmemLocation, d: u32, e: CUstream);
    [cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz, cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz](a: *mut CUdeviceptr, b: *mut usize, c: usize, d: *mut CUmemLocation, e: *mut usize, f: usize, g: u64, h: CUstream);
    [cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz](a: *mut CUdeviceptr, b: *mut usize, c: usize, d: u64, e: CUstream);
    [cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz](a: *const CUexternalSemaphore, b: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, c: u32, d: CUstream);
    [cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz](a: *const CUexternalSemaphore, b: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, c: u32, d: CUstream);
    [cuGraphicsMapResources, cuGraphicsMapResources_ptsz, cuGraphicsUnmapResources, cuGraphicsUnmapResources_ptsz](a: u32, b: *mut CUgraphicsResource, c: CUstream);
    [cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz](a: *mut CUarrayMapInfo, b: u32, c: CUstream);
    [cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz](a: *mut CUmemDecompressParams, b: usize, c: u32, d: *mut usize, e: CUstream);
    [cuGraphUpload, cuGraphUpload_ptsz](a: CUgraphExec, b: CUstream);
}

hook!([cuStreamDestroy, cuStreamDestroy_v2](stream: CUstream) |destroy| {
    capture::ended(stream);
    if let Some(runtime) = session::runtime()
        && let Some(_leave) = outside_captures()
    {
        runtime.frees().stream_ending(stream.0);
    }
    if let Some(runtime) = session::runtime() {
        runtime.watch().stream_over(StreamName::Made(stream.0));
    }
    // SAFETY: the program's arguments.
    let result = unsafe { destroy(stream) };
    if let Some(runtime) = session::runtime() {
        runtime.streams().ordered(Ordering::StreamEnds(StreamName::Made(stream.0)));
    }
    result
});
