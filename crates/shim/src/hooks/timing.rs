//! `--time-kernels`: how long each launch takes on the device.
//!
//! An event goes into the stream right before a launch and one right after it,
//! so what Ringfence does on the host before a launch is not counted, and what
//! the driver does between the two is the same for every code that is
//! launched. Events are used again once their times were read, which happens in
//! batches between launches and never waits. Nothing is put into a stream while
//! any is being captured.

use super::function::attribute_of;
use super::{capture, loaded, next, streams};
use crate::session;
use driver::Api;
use driver::sys::{CUcontext, CUevent, CUfunction_attribute, CUresult, CUstream};
use model::{Durations, KernelTimes, ProcessTimes, Ran, TIMES_SUFFIX, TIMES_VERSION, TimesFile};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Launches whose times are not read yet, before some are.
const BATCH: usize = 256;

/// How long the end of the process waits for kernels that still run.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether kernels are timed (`--time-kernels`).
static WANTED: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
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

/// A launch between its two events.
struct Pending {
    events: (CUevent, CUevent),
    context: CUcontext,
    row: Row,
}

#[derive(Clone, Copy)]
enum Row {
    Kernel(usize),
    Graph(usize),
}

struct Kernel {
    name: String,
    ran: Ran,
    registers: Option<u32>,
    local_bytes: Option<u32>,
    durations: Durations,
}

#[derive(Default)]
struct State {
    kernels: Vec<Kernel>,
    /// Rows by handle; handles may be given again when code was unloaded.
    by_handle: HashMap<(u64, Ran), usize>,
    graphs: Vec<Durations>,
    by_graph: HashMap<u64, usize>,
    free: HashMap<u64, Vec<(CUevent, CUevent)>>,
    pending: VecDeque<Pending>,
    captured: u64,
    not_timed: u64,
    memory_used: Option<u64>,
}

/// Starts timing kernels (`--time-kernels`).
pub fn enable() {
    *STATE.lock() = Some(State::default());
    WANTED.store(true, Ordering::Release);
}

fn with<T>(work: impl FnOnce(&mut State) -> T) -> Option<T> {
    STATE.lock().as_mut().map(work)
}

/// Launches and times it. `stream`: as the program gives it, and whether null
/// is the thread's own; none for a node of a graph.
#[inline]
pub(super) fn around(
    what: Timed,
    stream: Option<(CUstream, bool)>,
    launch: impl FnOnce() -> CUresult,
) -> CUresult {
    if !WANTED.load(Ordering::Relaxed) {
        return launch();
    }
    let Some((stream, per_thread)) = stream else {
        return launch();
    };
    timed(what, stream, per_thread, launch)
}

fn timed(
    what: Timed,
    stream: CUstream,
    per_thread: bool,
    launch: impl FnOnce() -> CUresult,
) -> CUresult {
    let Some(api) = next() else { return launch() };
    if capture::active() {
        let is_captured = streams::is_captured(stream, per_thread);
        with(|state| match is_captured {
            true => state.captured += 1,
            false => state.not_timed += 1,
        });
        return launch();
    }
    let record = if per_thread {
        api.cuEventRecord_ptsz
    } else {
        api.cuEventRecord
    };
    let row = row(api, what);
    let begun = record.zip(row).and_then(|(record, row)| {
        let context = current(api)?;
        let events = events(api, context)?;
        // SAFETY: an event of Ringfence's own, and the program's stream.
        if unsafe { record(events.0, stream) } != CUresult::CUDA_SUCCESS {
            give_back(context, events);
            return None;
        }
        Some((record, row, context, events))
    });
    let result = launch();
    let is_launched = result == CUresult::CUDA_SUCCESS;
    let Some((record, row, context, events)) = begun else {
        if is_launched {
            with(|state| state.not_timed += 1);
        }
        return result;
    };
    if !is_launched {
        // It is no launch.
        give_back(context, events);
        return result;
    }
    // SAFETY: as above.
    let recorded = unsafe { record(events.1, stream) };
    if recorded != CUresult::CUDA_SUCCESS {
        give_back(context, events);
        with(|state| state.not_timed += 1);
        return result;
    }
    let many = with(|state| {
        state.pending.push_back(Pending {
            events,
            context,
            row,
        });
        state.pending.len() >= BATCH && state.pending.len().is_multiple_of(BATCH / 4)
    });
    if many == Some(true) {
        read(api, None);
    }
    result
}

/// The row that a launch belongs to.
fn row(api: &Api, what: Timed) -> Option<Row> {
    let (function, launched, ran) = match what {
        Timed::Graph(executable) => {
            return with(|state| {
                let next = state.graphs.len();
                let index = *state.by_graph.entry(executable).or_insert(next);
                if index == next {
                    state.graphs.push(Durations::default());
                }
                Row::Graph(index)
            });
        }
        Timed::Kernel {
            function,
            launched,
            ran,
        } => (function, launched, ran),
    };
    if let Some(index) = with(|state| state.by_handle.get(&(launched, ran)).copied())? {
        return Some(Row::Kernel(index));
    }
    let known = loaded::kernel(function);
    let attribute = |attribute| {
        let is_kernel = known.as_ref()?.in_library();
        let value = attribute_of(api, launched, is_kernel, attribute)?;
        u32::try_from(value).ok()
    };
    let kernel = Kernel {
        name: known
            .as_ref()
            .map_or("(unknown kernel)".into(), |known| known.name().to_owned()),
        ran,
        registers: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS),
        local_bytes: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
        durations: Durations::default(),
    };
    let used = memory_used(api);
    with(|state| {
        state.memory_used = state.memory_used.max(used);
        let same = |known: &Kernel| known.name == kernel.name && known.ran == kernel.ran;
        let index = state.kernels.iter().position(same).unwrap_or_else(|| {
            state.kernels.push(kernel);
            state.kernels.len() - 1
        });
        state.by_handle.insert((launched, ran), index);
        Row::Kernel(index)
    })
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
fn events(api: &Api, context: CUcontext) -> Option<(CUevent, CUevent)> {
    let known = with(|state| state.free.get_mut(&context.0).and_then(Vec::pop))?;
    if known.is_some() {
        return known;
    }
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

fn give_back(context: CUcontext, events: (CUevent, CUevent)) {
    with(|state| state.free.entry(context.0).or_default().push(events));
}

/// Reads the times of launches that have ended, in the order in which they
/// were made, until one has not. `of`: only those of a context.
fn read(api: &Api, of: Option<CUcontext>) {
    let (Some(query), Some(elapsed)) = (api.cuEventQuery, api.cuEventElapsedTime) else {
        return;
    };
    if capture::active() {
        return;
    }
    let Some(mut batch) = with(|state| std::mem::take(&mut state.pending)) else {
        return;
    };
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
        with(|state| {
            if timed {
                let microseconds = f64::from(milliseconds) * 1e3;
                match launch.row {
                    Row::Kernel(row) => state.kernels[row].durations.add(microseconds),
                    Row::Graph(row) => state.graphs[row].add(microseconds),
                }
            } else {
                state.not_timed += 1;
            }
            let free = state.free.entry(launch.context.0).or_default();
            free.push(launch.events);
        });
    }
    left.append(&mut batch);
    with(|state| {
        // What other threads launched meanwhile is newer.
        left.append(&mut state.pending);
        state.pending = left;
    });
}

/// A context's kernels have ended, and it may be about to go.
pub(super) fn context_ending(context: CUcontext) {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let Some(api) = next() else { return };
    read(api, Some(context));
    let free = with(|state| state.free.remove(&context.0)).flatten();
    for (start, end) in free.into_iter().flatten() {
        destroy(api, start);
        destroy(api, end);
    }
}

/// Code has gone, and handles may come again.
pub(super) fn forget_kernels() {
    if WANTED.load(Ordering::Relaxed) {
        with(|state| state.by_handle.clear());
    }
}

/// An instantiated graph has gone, and its handle may come again.
pub(super) fn forget_graph(executable: u64) {
    if WANTED.load(Ordering::Relaxed) {
        with(|state| state.by_graph.remove(&executable));
    }
}

/// The process is about to end: writes what is known. May be called again.
pub fn finish() {
    if !WANTED.load(Ordering::Acquire) {
        return;
    }
    let Some(session) = session::get() else {
        return;
    };
    // A thread that was stopped by a fatal signal may hold the lock for good.
    if STATE.try_lock_for(PATIENCE).is_none() {
        return;
    }
    let begun = Instant::now();
    loop {
        read(&session.next, None);
        let left = with(|state| state.pending.len()).unwrap_or_default();
        if left == 0 || begun.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let Some(times) = with(|state| state.times(session)) else {
        return;
    };
    if times.kernels.is_empty() && times.graphs.is_empty() && times.not_timed == 0 {
        return;
    }
    if let Err(message) = write(session, times)
        && let Some(runtime) = session::runtime()
    {
        runtime.report_error(&message, false);
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

impl State {
    fn times(&self, session: &session::Session) -> ProcessTimes {
        let mut kernels: Vec<KernelTimes> = self
            .kernels
            .iter()
            // A kernel whose launches all failed, or were not timed, took no time.
            .filter(|kernel| kernel.durations.times().launches > 0)
            .map(|kernel| KernelTimes {
                name: kernel.name.clone(),
                demangled: report::demangle(&kernel.name),
                ran: kernel.ran,
                registers: kernel.registers,
                local_bytes: kernel.local_bytes,
                times: kernel.durations.times(),
            })
            .collect();
        kernels.sort_by(|a, b| b.times.total_us.total_cmp(&a.times.total_us));
        let pending = self.pending.len() as u64;
        ProcessTimes {
            pid: std::process::id(),
            program: std::env::current_exe()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            device: session.kind,
            device_name: session::runtime()
                .map(|runtime| runtime.driver().name())
                .unwrap_or_default(),
            memory_used: self.memory_used,
            kernels,
            graphs: self.graphs.iter().map(Durations::times).collect(),
            captured: self.captured,
            not_timed: self.not_timed + pending,
        }
    }
}
