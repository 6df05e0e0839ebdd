//! Which stream a handle means.

use crate::queries::{is_captured, is_capturing};
use crate::session::{self, Quick, next};
use driver::sys::{
    CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUcontext, CUresult, CUstream, CUstream_flags,
};
use runtime::{Ordering, Runtime, StreamName, StreamUse, When, Where};
use std::cell::Cell;

/// The stream that a handle means to the calling thread. `per_thread`: the
/// function is one of those for which null is the thread's own stream.
pub(super) fn name(runtime: &Runtime, stream: CUstream, per_thread: bool) -> StreamName {
    name_in(stream, per_thread, || {
        runtime.env().driver().current_context()
    })
}

/// The same; `context` is asked for the current one.
#[inline]
fn name_in(stream: CUstream, per_thread: bool, context: impl Fn() -> u64) -> StreamName {
    let handle = stream.0;
    if handle > u64::from(CU_STREAM_LEGACY) && handle != u64::from(CU_STREAM_PER_THREAD) {
        return StreamName::Made(handle);
    }
    let context = context();
    if handle == u64::from(CU_STREAM_PER_THREAD) || handle == 0 && per_thread {
        let thread = own_number();
        return StreamName::PerThread { context, thread };
    }
    StreamName::Legacy { context }
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
    let context = match name.context() {
        Some(context) => context,
        None => {
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
    if !runtime.streams().are_tracked() {
        return None;
    }
    if is_capturing() {
        runtime.streams().ordered(Ordering::Everything);
        return None;
    }
    let stream = in_use(runtime, stream, per_thread);
    runtime
        .streams()
        .ordered(stream.map_or(Ordering::Everything, Ordering::Operation));
    stream
}

/// When a copy or set does its work that is put into a stream.
pub(super) fn turn(stream: CUstream, per_thread: bool) -> When {
    session::runtime()
        .and_then(|runtime| of_launch(runtime, stream, per_thread))
        .map_or(When::Unknown, When::InStream)
}

/// Where a launch goes, while no stream is captured.
#[inline(always)]
pub(super) fn uncaptured(quick: &Quick, stream: CUstream, per_thread: bool) -> Where {
    Where::Stream {
        name: name_in(stream, per_thread, || quick.current_context()),
        handle: stream.0,
        per_thread,
    }
}

/// Where a launch goes.
pub(super) fn place(runtime: &Runtime, stream: CUstream, per_thread: bool) -> Where {
    if is_capturing() && is_captured(stream, per_thread) {
        return Where::Graph;
    }
    Where::Stream {
        name: name(runtime, stream, per_thread),
        handle: stream.0,
        per_thread,
    }
}

/// Something that orders streams in ways that are not distinguished.
pub(super) fn order_everything() {
    if let Some(runtime) = session::runtime() {
        runtime.streams().ordered(Ordering::Everything);
    }
}

thread_local! {
    /// Never the same for two threads of the process; 0: not asked for yet.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread's number.
#[inline(never)]
fn own_number() -> u64 {
    let known = THREAD.get();
    if known != 0 {
        return known;
    }
    let number = session::get().map_or(0, |session| session.threads.number());
    THREAD.set(number);
    number
}
