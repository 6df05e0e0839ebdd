//! What launches mean to the guard: it is there before the kernel is, except
//! where the kernel's first launch waits for the device, or needs all of it.

use super::{capture, loaded, next, streams};
use crate::session;
use driver::SupportStream;
use driver::sys::{
    CUfunction, CUfunction_attribute, CUkernel, CUmoduleLoadingMode, CUresult, CUstream,
    CUstreamCaptureStatus,
};
use model::DeviceKind;
use parking_lot::RwLock;
use runtime::{Entered, Waits, WatchedLaunch};
use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether the user wants the guard.
static WANTED: AtomicBool = AtomicBool::new(false);

/// The user wants the guard.
pub fn want() {
    WANTED.store(true, Ordering::Release);
}

/// The calling thread enters a hook, until the answer is dropped.
#[inline]
pub(super) fn enter() -> Option<Entered> {
    if !WANTED.load(Ordering::Relaxed) {
        return None;
    }
    Some(session::runtime()?.watch().enter())
}

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A kernel, by the handle that the device gets.
    Kernel(u64),
    /// One whose blocks must all be on the device at once.
    Cooperative(u64),
    /// A graph.
    Graph,
}

/// Launches under the guard's eyes. `stream`: as the program gives it, and
/// whether null is the thread's own.
pub(super) fn around(
    what: What,
    stream: Option<(CUstream, bool)>,
    launch: impl FnOnce() -> CUresult,
) -> CUresult {
    if !WANTED.load(Ordering::Relaxed) {
        return launch();
    }
    let (Some(runtime), Some((stream, per_thread))) = (session::runtime(), stream) else {
        return launch();
    };
    if capture::active() && is_captured(stream, per_thread) {
        // It becomes part of a graph, and runs when that is launched.
        return launch();
    }
    let watching = runtime.watch();
    let name = streams::name(runtime, stream, per_thread);
    let function = match what {
        What::Kernel(function) | What::Cooperative(function) => Some(function),
        What::Graph => None,
    };
    let watched = WatchedLaunch {
        name,
        stream: SupportStream::Program {
            handle: stream.0,
            per_thread,
        },
        context: runtime.driver().current_context(),
        function: function.map(|handle| loaded::original(handle).unwrap_or(handle)),
    };
    let needs = needs_the_device(what);
    let paused = (needs != Needs::Nothing).then(|| watching.pause(Waits::Perhaps));
    watching.launching(&watched);
    let result = launch();
    watching.launched(&watched);
    match paused {
        Some(paused) if needs == Needs::ToBeAlone && result == CUresult::CUDA_SUCCESS => {
            watching.stay_away(&watched, paused);
        }
        paused => drop(paused),
    }
    result
}

/// What a launch needs of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Nothing that the guard has.
    Nothing,
    /// That it is idle for a moment.
    ToBeIdle,
    /// All of it, until the kernel has ended.
    ToBeAlone,
}

/// Whether the launch would wait for the guard, or could not run beside it.
fn needs_the_device(what: What) -> Needs {
    let is_gpu = session::get().is_some_and(|session| session.kind == DeviceKind::Gpu);
    match what {
        _ if !is_gpu => Needs::Nothing,
        What::Cooperative(_) => Needs::ToBeAlone,
        What::Kernel(function) if is_new(function) => Needs::ToBeIdle,
        What::Kernel(_) | What::Graph => Needs::Nothing,
    }
}

/// Code has gone, and handles may come again: what is known of kernels is not
/// true any more.
pub(super) fn forget_kernels() {
    if let Some(seen) = SEEN.write().as_mut() {
        seen.clear();
    }
    MOST_LOCAL.store(0, Ordering::Relaxed);
}

/// Kernels that were launched before.
static SEEN: RwLock<Option<HashSet<u64>>> = RwLock::new(None);
/// The most local memory that a thread of one of them has.
static MOST_LOCAL: AtomicI32 = AtomicI32::new(0);

/// Whether a kernel's launch may wait for the device because it is its first:
/// to load its code, or to make room for more local memory than any before.
fn is_new(function: u64) -> bool {
    if SEEN
        .read()
        .as_ref()
        .is_some_and(|seen| seen.contains(&function))
    {
        return false;
    }
    SEEN.write().get_or_insert_default().insert(function);
    if loads_lazily() {
        return true;
    }
    let Some(local) = local_bytes(function) else {
        return true;
    };
    MOST_LOCAL.fetch_max(local, Ordering::Relaxed) < local
}

/// Whether the driver loads a kernel's code at its first launch.
fn loads_lazily() -> bool {
    static LAZY: OnceLock<bool> = OnceLock::new();
    *LAZY.get_or_init(|| {
        let mut mode = CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING;
        // SAFETY: a place for the answer.
        let asked = next()
            .and_then(|api| api.cuModuleGetLoadingMode)
            .map(|ask| unsafe { ask(&mut mode) });
        // Drivers that cannot tell load eagerly.
        asked == Some(CUresult::CUDA_SUCCESS) && mode == CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING
    })
}

/// Bytes of local memory of each thread of a kernel.
fn local_bytes(function: u64) -> Option<i32> {
    let api = next()?;
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
    let original = loaded::original(function).unwrap_or(function);
    let is_kernel = loaded::function(original).is_some_and(|function| function.is_kernel);
    let mut bytes = 0;
    // SAFETY: places for the answers; the handle came from the device.
    let asked = unsafe {
        if is_kernel {
            let mut device = 0;
            if api.cuCtxGetDevice?(&mut device) != CUresult::CUDA_SUCCESS {
                return None;
            }
            api.cuKernelGetAttribute?(&mut bytes, attribute, CUkernel(function), device)
        } else {
            api.cuFuncGetAttribute?(&mut bytes, attribute, CUfunction(function))
        }
    };
    (asked == CUresult::CUDA_SUCCESS).then_some(bytes)
}

fn is_captured(stream: CUstream, per_thread: bool) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let asked = next().and_then(|api| {
        let ask = if per_thread {
            api.cuStreamIsCapturing_ptsz?
        } else {
            api.cuStreamIsCapturing?
        };
        // SAFETY: a place for the answer; the stream is the program's.
        Some(unsafe { ask(stream, &mut status) })
    });
    asked != Some(CUresult::CUDA_SUCCESS)
        || status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}
