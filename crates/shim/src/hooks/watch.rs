//! What launches mean to the guard: it is there before the kernel is, except
//! where the kernel's first launch waits for the device, or needs all of it.

use super::function::attribute_of;
use super::{capture, loaded, next, streams};
use crate::session;
use driver::SupportStream;
use driver::sys::{
    CUdevice_attribute, CUfunction, CUfunction_attribute, CUmoduleLoadingMode, CUresult, CUstream,
    CUstreamCaptureStatus,
};
use model::DeviceKind;
use parking_lot::RwLock;
use runtime::{Entered, LaunchShape, Waits, WatchedLaunch};
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether `--protect watch` is on.
static WANTED: AtomicBool = AtomicBool::new(false);

/// `--protect watch` is on.
pub fn enable() {
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
        What::Kernel(function, _) => Some(function),
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
        What::Kernel(function, shape) if fills_the_device(function, shape) => Needs::ToBeAlone,
        What::Kernel(function, _) if is_new(function) => Needs::ToBeIdle,
        What::Kernel(..) | What::Graph => Needs::Nothing,
    }
}

/// Waves of blocks from which on one more does not matter.
const FEW_WAVES: u64 = 8;

/// Whether a launch would take a wave of blocks more if there were a place less
/// for them, as there is beside the guard, and has few of them. One whose
/// blocks all have a place at once may also rely on it (cooperative ones do,
/// and loops of blocks that wait for each other).
fn fills_the_device(function: u64, shape: LaunchShape) -> bool {
    let sides = shape.grid.iter();
    let blocks = sides.map(|side| u64::from(*side)).product::<u64>();
    let Some(processors) = multiprocessors().filter(|count| blocks >= *count) else {
        return false;
    };
    let threads = shape.block.iter().product::<u32>();
    let key = (function, threads, shape.shared);
    let known = PLACES
        .read()
        .as_ref()
        .and_then(|places| places.get(&key).copied());
    let each = known.unwrap_or_else(|| {
        let each = u64::from(places_on_each(function, threads, shape.shared));
        PLACES.write().get_or_insert_default().insert(key, each);
        each
    });
    takes_a_wave_more(blocks, each, processors)
}

/// `each`: blocks that one of the multiprocessors takes at once; 0 if that is
/// not known.
fn takes_a_wave_more(blocks: u64, each: u64, processors: u64) -> bool {
    let places = each * processors;
    if places == 0 {
        return false;
    }
    let waves = blocks.div_ceil(places);
    // All that run at once: the guard may keep all of its multiprocessor's
    // places, where memory is divided in another way for it.
    if waves == 1 {
        return blocks > places - each;
    }
    waves <= FEW_WAVES && blocks.div_ceil(places - 1) > waves
}

/// Multiprocessors of the device that was used first.
fn multiprocessors() -> Option<u64> {
    static COUNT: OnceLock<Option<u64>> = OnceLock::new();
    *COUNT.get_or_init(|| {
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
    })
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
    if let Some(seen) = SEEN.write().as_mut() {
        seen.clear();
    }
    if let Some(places) = PLACES.write().as_mut() {
        places.clear();
    }
    MOST_LOCAL.store(0, Ordering::Relaxed);
}

/// By kernel, threads of a block and dynamic shared memory.
type Places = HashMap<(u64, u32, u32), u64>;

/// Blocks that a multiprocessor takes at once.
static PLACES: RwLock<Option<Places>> = RwLock::new(None);

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
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
    let original = loaded::original(function).unwrap_or(function);
    let is_kernel = loaded::kernel(original).is_some_and(|kernel| kernel.in_library());
    attribute_of(next()?, function, is_kernel, attribute)
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

#[cfg(test)]
mod tests {
    use super::takes_a_wave_more;

    #[test]
    fn grids_that_just_fit() {
        // 132 multiprocessors with 8 blocks each have 1056 places.
        assert!(!takes_a_wave_more(1048, 8, 132), "beside one that is full");
        assert!(takes_a_wave_more(1049, 8, 132));
        assert!(takes_a_wave_more(1056, 8, 132));
        assert!(!takes_a_wave_more(1057, 8, 132), "two waves in any case");
        assert!(takes_a_wave_more(2112, 8, 132));
        assert!(!takes_a_wave_more(2110, 8, 132));
        assert!(takes_a_wave_more(8 * 1056, 8, 132));
        assert!(!takes_a_wave_more(9 * 1056, 8, 132), "a ninth more");
        assert!(!takes_a_wave_more(1056, 0, 132), "not known");
        assert!(takes_a_wave_more(1, 1, 1));
    }
}
