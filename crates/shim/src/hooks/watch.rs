//! What launches mean to the guard: it is there before the kernel is, except
//! where the kernel's first launch waits for the device, or needs all of it.

use super::streams;
use super::waves::takes_a_wave_more;
use crate::queries::{self, ask_captured, attribute_of, is_capturing};
use crate::session::{self, next};
use crate::state::Guard;
use driver::SupportStream;
use driver::sys::{
    CUdevice_attribute, CUfunction, CUfunction_attribute, CUmoduleLoadingMode, CUresult, CUstream,
};
use model::DeviceKind;
use runtime::{Entered, LaunchShape, Waits, WatchedLaunch};

/// What is known of kernels, if `--protect watch` is on.
#[inline]
fn guard() -> Option<&'static Guard> {
    session::get()?.guard.as_ref()
}

/// The calling thread enters a hook, until the answer is dropped.
#[inline]
pub(super) fn enter() -> Option<Entered> {
    guard()?;
    Some(session::runtime()?.watch().enter())
}

/// What is launched.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A kernel, by the handle that the device gets.
    Kernel(u64, LaunchShape),
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
    let Some(guard) = guard() else {
        return launch();
    };
    let (Some(runtime), Some((stream, per_thread))) = (session::runtime(), stream) else {
        return launch();
    };
    if is_capturing() && may_be_captured(stream, per_thread) {
        // It becomes part of a graph, and runs when that is launched.
        return launch();
    }
    let watching = runtime.watch();
    let name = streams::name(runtime, stream, per_thread);
    let function = match what {
        What::Kernel(function, _) => Some(function),
        What::Graph => None,
    };
    let watched = WatchedLaunch {
        name,
        stream: SupportStream::Program {
            handle: stream.0,
            per_thread,
        },
        context: runtime.env().driver().current_context(),
        function: function.map(|handle| queries::original(handle).unwrap_or(handle)),
    };
    let needs = needs_the_device(guard, what);
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
fn needs_the_device(guard: &Guard, what: What) -> Needs {
    let is_gpu = session::get().is_some_and(|session| session.kind == DeviceKind::Gpu);
    match what {
        _ if !is_gpu => Needs::Nothing,
        What::Kernel(function, shape) if fills_the_device(guard, function, shape) => {
            Needs::ToBeAlone
        }
        What::Kernel(function, _) if is_new(guard, function) => Needs::ToBeIdle,
        What::Kernel(..) | What::Graph => Needs::Nothing,
    }
}

/// Whether a launch would take a wave of blocks more beside the guard, and has
/// few of them. One whose
/// blocks all have a place at once may also rely on it (cooperative ones do,
/// and loops of blocks that wait for each other).
fn fills_the_device(guard: &Guard, function: u64, shape: LaunchShape) -> bool {
    let sides = shape.grid.iter();
    let blocks = sides.map(|side| u64::from(*side)).product::<u64>();
    let processors = guard.multiprocessors(multiprocessors);
    let Some(processors) = processors.filter(|count| blocks >= *count) else {
        return false;
    };
    let threads = shape.block.iter().product::<u32>();
    let each = guard.places((function, threads, shape.shared), || {
        u64::from(places_on_each(function, threads, shape.shared))
    });
    takes_a_wave_more(blocks, each, processors)
}

/// Multiprocessors of the current device.
fn multiprocessors() -> Option<u64> {
    let api = next()?;
    let (mut device, mut count) = (0, 0);
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: places for the answers.
    let asked = unsafe {
        if api.cuCtxGetDevice?(&mut device) != CUresult::CUDA_SUCCESS {
            return None;
        }
        api.cuDeviceGetAttribute?(&mut count, attribute, device)
    };
    u64::try_from(count)
        .ok()
        .filter(|_| asked == CUresult::CUDA_SUCCESS)
}

/// Blocks of a launch that a multiprocessor takes at once; 0 if that is not
/// known.
fn places_on_each(function: u64, threads: u32, shared: u32) -> u32 {
    let mut blocks = 0;
    let asked = next()
        .and_then(|api| api.cuOccupancyMaxActiveBlocksPerMultiprocessor)
        .map(|ask| {
            let threads = i32::try_from(threads).unwrap_or(i32::MAX);
            // SAFETY: a place for the answer; the handle came from the device,
            // and may be that of a kernel without a context.
            unsafe { ask(&mut blocks, CUfunction(function), threads, shared as usize) }
        });
    match asked {
        Some(CUresult::CUDA_SUCCESS) => blocks.max(0).cast_unsigned(),
        _ => 0,
    }
}

/// Code has gone, and handles may come again: what is known of kernels is not
/// true any more.
pub(super) fn forget_kernels() {
    if let Some(guard) = guard() {
        guard.forget_kernels();
    }
}

/// Whether a kernel's launch may wait for the device because it is its first:
/// to load its code, or to make room for more local memory than any before.
fn is_new(guard: &Guard, function: u64) -> bool {
    if !guard.is_first(function) {
        return false;
    }
    if guard.loads_lazily(loads_lazily) {
        return true;
    }
    local_bytes(function).is_none_or(|bytes| guard.needs_more_local(bytes))
}

/// Whether the driver loads a kernel's code at its first launch.
fn loads_lazily() -> bool {
    let mut mode = CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING;
    // SAFETY: a place for the answer.
    let asked = next()
        .and_then(|api| api.cuModuleGetLoadingMode)
        .map(|ask| unsafe { ask(&mut mode) });
    // Drivers that cannot tell load eagerly.
    asked == Some(CUresult::CUDA_SUCCESS) && mode == CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING
}

/// Bytes of local memory of each thread of a kernel.
fn local_bytes(function: u64) -> Option<i32> {
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
    let original = queries::original(function).unwrap_or(function);
    let is_kernel = queries::kernel(original).is_some_and(|kernel| kernel.in_library());
    attribute_of(next()?, function, is_kernel, attribute)
}

/// Whether what is put into a stream becomes part of a graph, or the device does
/// not say.
fn may_be_captured(stream: CUstream, per_thread: bool) -> bool {
    ask_captured(stream, per_thread) != Some(false)
}
