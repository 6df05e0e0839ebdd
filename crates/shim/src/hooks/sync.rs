//! Calls after which kernels have finished: their records are read.

use super::define::{hook, hooks};
use super::streams;
use crate::queries::outside_captures;
use crate::session;
use driver::sys::{CU_STREAM_PER_THREAD, CUcontext, CUevent, CUresult, CUstream};
use runtime::{Ordering, StreamName, When};

hooks!(
    cuCtxSynchronize,
    cuCtxSynchronize_v2,
    cuStreamSynchronize,
    cuStreamSynchronize_ptsz,
    cuStreamQuery,
    cuStreamQuery_ptsz,
    cuEventSynchronize,
    cuEventQuery,
);

/// What waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// For everything in a context; null: in the current one.
    Context(CUcontext),
    /// For one stream. `true`: null is the thread's own.
    Stream(CUstream, bool),
    /// For an event.
    Event(CUevent),
    /// For something else, which says nothing about streams as a whole.
    Something,
    /// For the legacy default stream, as copies to the host do, and perhaps for
    /// more.
    Legacy,
}

/// Reads records, also after a failure: a kernel that faulted may have left
/// some that say why.
pub(super) fn waited(result: CUresult, what: Waited) -> CUresult {
    if result == CUresult::CUDA_ERROR_NOT_READY {
        return result;
    }
    if let Some(runtime) = session::runtime() {
        if result == CUresult::CUDA_SUCCESS {
            match what {
                Waited::Context(CUcontext::NULL) => {
                    runtime
                        .host_waits()
                        .waited_for_context(runtime.env().driver().current_context());
                }
                Waited::Context(context) => runtime.host_waits().waited_for_context(context.0),
                Waited::Stream(stream, per_thread) => {
                    let name = streams::name(runtime, stream, per_thread);
                    runtime.host_waits().waited_for(name);
                }
                Waited::Event(event) => {
                    runtime
                        .streams()
                        .ordered(Ordering::HostWaitedForEvent(event.0));
                }
                Waited::Something => runtime.streams().ordered(Ordering::Everything),
                Waited::Legacy => {
                    runtime.streams().ordered(Ordering::Everything);
                    runtime.host_waits().waited_for_legacy();
                }
            }
        }
        runtime.synchronized();
    }
    result
}

/// What kernels leave beside buffers is to be seen when the host has waited.
/// `None`: for everything.
fn before(stream: Option<(CUstream, bool)>) {
    if let Some(runtime) = session::runtime()
        && runtime.host_waits().acts_before()
        && let Some(_leave) = outside_captures()
    {
        let name = stream.map(|(stream, per_thread)| streams::name(runtime, stream, per_thread));
        // Only this thread can name its own stream.
        let own = CUstream(CU_STREAM_PER_THREAD.into());
        if name.is_none() {
            runtime
                .host_waits()
                .before(Some(streams::name(runtime, own, false)));
        }
        // The legacy stream waits for others.
        let name = name.filter(|name| !matches!(name, StreamName::Legacy { .. }));
        runtime.host_waits().before(name);
    }
}

/// As the program is about to wait for everything.
pub(super) fn before_all() {
    before(None);
}

/// When a copy or set does its work that the host waits for, or that waits for
/// all streams.
pub(super) fn last() -> When {
    before_all();
    streams::order_everything();
    When::Last
}

hook!(
    cuCtxSynchronize() | wait | {
        before_all();
        // SAFETY: no arguments.
        waited(unsafe { wait() }, Waited::Context(CUcontext::NULL))
    }
);

hook!(cuCtxSynchronize_v2(context: CUcontext) |wait| {
    before_all();
    // SAFETY: the program's arguments.
    waited(unsafe { wait(context) }, Waited::Context(context))
});

hook!([cuStreamQuery, cuStreamQuery_ptsz](stream: CUstream) |ask| {
    // SAFETY: the program's arguments.
    waited(unsafe { ask(stream) }, Waited::Stream(stream, PER_THREAD))
});

hook!([cuStreamSynchronize, cuStreamSynchronize_ptsz](stream: CUstream) |wait| {
    before(Some((stream, PER_THREAD)));
    // SAFETY: the program's arguments.
    waited(unsafe { wait(stream) }, Waited::Stream(stream, PER_THREAD))
});

hook!(cuEventQuery(event: CUevent) |ask| {
    // SAFETY: the program's arguments.
    waited(unsafe { ask(event) }, Waited::Event(event))
});

hook!(cuEventSynchronize(event: CUevent) |wait| {
    before_all();
    // SAFETY: the program's arguments.
    waited(unsafe { wait(event) }, Waited::Event(event))
});
