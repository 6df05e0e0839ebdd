//! `--time-kernels`: how long each launch takes on the device.
//!
//! An event goes into the stream right before a launch and one right after it,
//! so what Ringfence does on the host before a launch is not counted, and what
//! the driver does between the two is the same for every code that is
//! launched. Events are used again once their times were read, which happens in
//! batches between launches and never waits. Nothing is put into a stream while
//! any is being captured.

use crate::queries::{attribute_of, is_captured, is_capturing, kernel};
use crate::session::{self, next};
use crate::state::{Pending, Row, TimedKernel, Times};
use driver::Api;
use driver::sys::{CUcontext, CUevent, CUfunction_attribute, CUresult, CUstream};
use model::{ProcessTimes, Ran, TIMES_SUFFIX, TIMES_VERSION, TimesFile};
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the end of the process waits for kernels that still run.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// A kernel: the program's handle, that of the code that is launched, and
    /// what that is.
    Kernel {
        function: u64,
        launched: u64,
        ran: Ran,
    },
    /// A graph, by its executable.
    Graph(u64),
}

/// The times of the process, if kernels are timed (`--time-kernels`).
#[inline]
fn times() -> Option<&'static Times> {
    session::get()?.times.as_ref()
}

/// Launches and times it. `stream`: as the program gives it, and whether null
/// is the thread's own; none for a node of a graph.
#[inline]
pub fn around(
    what: Timed,
    stream: Option<(CUstream, bool)>,
    launch: impl FnOnce() -> CUresult,
) -> CUresult {
    let (Some(times), Some(stream)) = (times(), stream) else {
        return launch();
    };
    timed(times, what, stream, launch)
}

fn timed(
    times: &Times,
    what: Timed,
    (stream, per_thread): (CUstream, bool),
    launch: impl FnOnce() -> CUresult,
) -> CUresult {
    let Some(api) = next() else { return launch() };
    if is_capturing() {
        match is_captured(stream, per_thread) {
            true => times.count_captured(),
            false => times.count_not_timed(),
        }
        return launch();
    }
    let record = if per_thread {
        api.cuEventRecord_ptsz
    } else {
        api.cuEventRecord
    };
    let row = row(times, api, what);
    let begun = record.and_then(|record| {
        let context = current(api)?;
        let events = times.take_events(context).or_else(|| make_events(api))?;
        // SAFETY: an event of Ringfence's own, and the program's stream.
        if unsafe { record(events.0, stream) } != CUresult::CUDA_SUCCESS {
            times.give_back(context, events);
            return None;
        }
        Some((record, context, events))
    });
    let result = launch();
    let is_launched = result == CUresult::CUDA_SUCCESS;
    let Some((record, context, events)) = begun else {
        if is_launched {
            times.count_not_timed();
        }
        return result;
    };
    if !is_launched {
        // It is no launch.
        times.give_back(context, events);
        return result;
    }
    // SAFETY: as above.
    let recorded = unsafe { record(events.1, stream) };
    if recorded != CUresult::CUDA_SUCCESS {
        times.give_back(context, events);
        times.count_not_timed();
        return result;
    }
    let many = times.launched(Pending {
        events,
        context,
        row,
    });
    if many {
        read(times, api, None);
    }
    result
}

/// The row that a launch belongs to.
fn row(times: &Times, api: &Api, what: Timed) -> Row {
    let (function, launched, ran) = match what {
        Timed::Graph(executable) => return times.graph(executable),
        Timed::Kernel {
            function,
            launched,
            ran,
        } => (function, launched, ran),
    };
    if let Some(row) = times.kernel(launched, ran) {
        return row;
    }
    let known = kernel(function);
    let attribute = |attribute| {
        let is_kernel = known.as_ref()?.in_library();
        let value = attribute_of(api, launched, is_kernel, attribute)?;
        u32::try_from(value).ok()
    };
    let kernel = TimedKernel {
        name: known
            .as_ref()
            .map_or("(unknown kernel)".into(), |known| known.name().to_owned()),
        ran,
        registers: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS),
        local_bytes: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
    };
    times.add_kernel(launched, kernel, memory_used(api))
}

/// Bytes of the device's memory that are in use.
fn memory_used(api: &Api) -> Option<u64> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: places for both answers.
    let asked = unsafe { api.cuMemGetInfo_v2?(&mut free, &mut total) };
    (asked == CUresult::CUDA_SUCCESS).then(|| (total.saturating_sub(free)) as u64)
}

fn current(api: &Api) -> Option<CUcontext> {
    let mut context = CUcontext::NULL;
    // SAFETY: a place for the answer.
    let asked = unsafe { api.cuCtxGetCurrent?(&mut context) };
    (asked == CUresult::CUDA_SUCCESS && context != CUcontext::NULL).then_some(context)
}

/// Two events of the current context.
fn make_events(api: &Api) -> Option<(CUevent, CUevent)> {
    let create = api.cuEventCreate?;
    let (mut start, mut end) = (CUevent::NULL, CUevent::NULL);
    // SAFETY: places for the answers; no flags, so the events have times.
    unsafe {
        if create(&mut start, 0) != CUresult::CUDA_SUCCESS {
            return None;
        }
        if create(&mut end, 0) != CUresult::CUDA_SUCCESS {
            destroy(api, start);
            return None;
        }
    }
    Some((start, end))
}

fn destroy(api: &Api, event: CUevent) {
    if let Some(destroy) = api.cuEventDestroy_v2 {
        // SAFETY: an event of Ringfence's own, which is not in use any more. One
        // that is gone with its context is refused.
        let _ = unsafe { destroy(event) };
    }
}

/// Reads the times of launches that have ended, in the order in which they
/// were made, until one has not. `of`: only those of a context.
fn read(times: &Times, api: &Api, of: Option<CUcontext>) {
    let (Some(query), Some(elapsed)) = (api.cuEventQuery, api.cuEventElapsedTime) else {
        return;
    };
    if is_capturing() {
        return;
    }
    let mut batch = times.take_pending();
    let mut left = VecDeque::new();
    while let Some(launch) = batch.pop_front() {
        if of.is_some_and(|of| of != launch.context) {
            left.push_back(launch);
            continue;
        }
        // SAFETY: an event of Ringfence's own.
        let asked = unsafe { query(launch.events.1) };
        if asked == CUresult::CUDA_ERROR_NOT_READY {
            left.push_back(launch);
            break;
        }
        let mut milliseconds = 0f32;
        let timed = asked == CUresult::CUDA_SUCCESS
            // SAFETY: both events are complete; a place for the answer.
            && unsafe { elapsed(&mut milliseconds, launch.events.0, launch.events.1) }
                == CUresult::CUDA_SUCCESS;
        times.ended(&launch, timed.then(|| f64::from(milliseconds) * 1e3));
    }
    left.append(&mut batch);
    times.put_back(left);
}

/// A context's kernels have ended, and it may be about to go.
pub fn context_ending(context: CUcontext) {
    let (Some(times), Some(api)) = (times(), next()) else {
        return;
    };
    read(times, api, Some(context));
    for (start, end) in times.take_all_events(context) {
        destroy(api, start);
        destroy(api, end);
    }
}

/// Code has gone, and handles may come again.
pub fn forget_kernels() {
    if let Some(times) = times() {
        times.forget_kernels();
    }
}

/// An instantiated graph has gone, and its handle may come again.
pub fn forget_graph(executable: u64) {
    if let Some(times) = times() {
        times.forget_graph(executable);
    }
}

/// The process is about to end: writes what is known. May be called again.
pub fn finish() {
    let Some(session) = session::get() else {
        return;
    };
    let Some(times) = &session.times else {
        return;
    };
    if !times.are_free(PATIENCE) {
        return;
    }
    let begun = Instant::now();
    loop {
        read(times, &session.next, None);
        if times.pending() == 0 || begun.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let device_name = session::runtime()
        .map(|runtime| runtime.env().driver().name())
        .unwrap_or_default();
    let times = times.of_process(session.kind, device_name);
    if times.kernels.is_empty() && times.graphs.is_empty() && times.not_timed == 0 {
        return;
    }
    if let Err(message) = write(session, times)
        && let Some(runtime) = session::runtime()
    {
        runtime.env().error(&message, false);
    }
}

/// For the command, which writes one file for all processes; without it, the
/// file itself.
fn write(session: &session::Session, times: ProcessTimes) -> Result<(), String> {
    let settings = &session.settings;
    let write = |path: &Path, text: serde_json::Result<String>| {
        text.map_err(std::io::Error::other)
            .and_then(|text| std::fs::write(path, text))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    match (&settings.session, &settings.time_kernels) {
        (Some(folder), _) => write(
            &folder.join(format!("{}{TIMES_SUFFIX}", times.pid)),
            serde_json::to_string(&times),
        ),
        (None, Some(path)) => write(
            path,
            serde_json::to_string_pretty(&TimesFile {
                version: TIMES_VERSION,
                processes: vec![times],
            }),
        ),
        (None, None) => Ok(()),
    }
}
