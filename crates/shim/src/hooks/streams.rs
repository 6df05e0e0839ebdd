//! Which stream a handle means, and the ends of streams.

use super::{capture, hook, hooks, next, sync};
use crate::session;
use driver::sys::{
    CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUcontext, CUresult, CUstream, CUstream_flags,
    CUstreamCaptureStatus,
};
use runtime::{Ordering, Runtime, StreamName, StreamUse, When, Where};

hooks!(cuStreamDestroy, cuStreamDestroy_v2);

/// The stream that a handle means to the calling thread. `per_thread`: the
/// function is one of those for which null is the thread's own stream.
pub(super) fn name(runtime: &Runtime, stream: CUstream, per_thread: bool) -> StreamName {
    let context = || runtime.driver().current_context();
    let of_thread = || StreamName::PerThread {
        context: context(),
        thread: THREAD.with(|thread| *thread),
    };
    match stream.0 {
        0 if per_thread => of_thread(),
        handle if handle == u64::from(CU_STREAM_PER_THREAD) => of_thread(),
        handle if handle <= u64::from(CU_STREAM_LEGACY) => {
            StreamName::Legacy { context: context() }
        }
        handle => StreamName::Made(handle),
    }
}

/// The stream, and how it is ordered with others. `None` if the device does
/// not know it; then it refuses what is put there. Not to be asked while a
/// stream is captured: the questions about a stream that is could end that.
pub(super) fn in_use(runtime: &Runtime, stream: CUstream, per_thread: bool) -> Option<StreamUse> {
    let name = name(runtime, stream, per_thread);
    let api = next()?;
    let ask = if per_thread {
        api.cuStreamGetFlags_ptsz?
    } else {
        api.cuStreamGetFlags?
    };
    let mut flags = 0;
    // SAFETY: a place for the answer; the handle is the program's.
    if unsafe { ask(stream, &mut flags) } != CUresult::CUDA_SUCCESS {
        return None;
    }
    let context = match name {
        StreamName::Legacy { context } | StreamName::PerThread { context, .. } => context,
        StreamName::Made(_) => {
            let mut context = CUcontext::NULL;
            // SAFETY: a place for the answer.
            let asked = unsafe { api.cuStreamGetCtx?(stream, &mut context) };
            if asked != CUresult::CUDA_SUCCESS {
                return None;
            }
            context.0
        }
    };
    Some(StreamUse {
        name,
        context,
        blocking: flags & CUstream_flags::CU_STREAM_NON_BLOCKING.0 == 0,
    })
}

/// The stream of a launch or copy, if it matters.
pub(super) fn of_launch(
    runtime: &Runtime,
    stream: CUstream,
    per_thread: bool,
) -> Option<StreamUse> {
    if !runtime.tracks_streams() {
        return None;
    }
    if capture::active() {
        runtime.ordered(Ordering::Everything);
        return None;
    }
    let stream = in_use(runtime, stream, per_thread);
    runtime.ordered(stream.map_or(Ordering::Everything, Ordering::Operation));
    stream
}

/// When a copy or set does its work that is put into a stream.
pub(super) fn turn(stream: CUstream, per_thread: bool) -> When {
    session::runtime()
        .and_then(|runtime| of_launch(runtime, stream, per_thread))
        .map_or(When::Unknown, When::InStream)
}

/// When a copy or set does its work that the host waits for, or that waits for
/// all streams.
pub(super) fn last() -> When {
    sync::before_all();
    order_everything();
    When::Last
}

/// Where a launch goes.
pub(super) fn place(runtime: &Runtime, stream: CUstream, per_thread: bool) -> Where {
    if capture::active() && is_captured(stream, per_thread) {
        return Where::Graph;
    }
    Where::Stream {
        name: name(runtime, stream, per_thread),
        handle: stream.0,
        per_thread,
    }
}

/// Whether what is put into a stream now becomes part of a graph.
pub(super) fn is_captured(stream: CUstream, per_thread: bool) -> bool {
    ask_captured(stream, per_thread) == Some(true)
}

/// As [`is_captured`]; `None` if the device does not say: it does not know the
/// stream, or it is the legacy one, which must not wait for one that is
/// captured. The question itself ends no capture.
pub(super) fn ask_captured(stream: CUstream, per_thread: bool) -> Option<bool> {
    let api = next()?;
    let ask = if per_thread {
        api.cuStreamIsCapturing_ptsz
    } else {
        api.cuStreamIsCapturing
    };
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a place for the answer; the handle is the program's.
    let asked = ask.map(|ask| unsafe { ask(stream, &mut status) });
    (asked == Some(CUresult::CUDA_SUCCESS))
        .then_some(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Something that orders streams in ways that are not distinguished.
pub(super) fn order_everything() {
    if let Some(runtime) = session::runtime() {
        runtime.ordered(Ordering::Everything);
    }
}

thread_local! {
    /// Never the same for two threads of the process.
    static THREAD: u64 = {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    };
}

hook!([cuStreamDestroy, cuStreamDestroy_v2](stream: CUstream) |destroy| {
    capture::ended(stream);
    if let Some(runtime) = session::runtime()
        && !capture::active()
    {
        runtime.stream_ending(stream.0);
    }
    if let Some(runtime) = session::runtime() {
        runtime.watch().stream_over(StreamName::Made(stream.0));
    }
    // SAFETY: the program's arguments.
    let result = unsafe { destroy(stream) };
    if let Some(runtime) = session::runtime() {
        runtime.ordered(Ordering::StreamEnds(StreamName::Made(stream.0)));
    }
    result
});
