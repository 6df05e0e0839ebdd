//! Which stream a handle means, and the ends of streams.

use super::{capture, hook, hooks};
use crate::session;
use driver::sys::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUstream};
use runtime::{Runtime, StreamName};

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
    // SAFETY: the program's arguments.
    unsafe { destroy(stream) }
});
