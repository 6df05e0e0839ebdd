//! The times of kernels and graphs (`--time-kernels`).

use driver::sys::{CUcontext, CUevent};
use model::{DeviceKind, Durations, KernelTimes, ProcessTimes, Ran};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Launches whose times are not read yet, before some are.
const BATCH: usize = 256;

/// An event right before a launch, and one right after it.
pub type Events = (CUevent, CUevent);

/// A launch between its two events.
pub struct Pending {
    /// They are used again.
    pub events: Events,
    /// Where the events were made.
    pub context: CUcontext,
    /// What was launched.
    pub row: Row,
}

/// A kernel, by what was launched for it, or a graph.
#[derive(Clone, Copy)]
pub enum Row {
    /// A kernel.
    Kernel(usize),
    /// A graph.
    Graph(usize),
}

/// A kernel, and what was launched for it.
pub struct TimedKernel {
    /// Its name.
    pub name: String,
    /// Which code ran.
    pub ran: Ran,
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Local memory of a thread.
    pub local_bytes: Option<u32>,
}

#[derive(Default)]
struct State {
    kernels: Vec<(TimedKernel, Durations)>,
    /// Rows by handle; handles may be given again when code was unloaded.
    by_handle: HashMap<(u64, Ran), usize>,
    graphs: Vec<Durations>,
    by_graph: HashMap<u64, usize>,
    free: HashMap<u64, Vec<Events>>,
    pending: VecDeque<Pending>,
    captured: u64,
    not_timed: u64,
    memory_used: Option<u64>,
}

/// All times of the process.
#[derive(Default)]
pub struct Times {
    state: Mutex<State>,
}

impl Times {
    /// Whether the times can be used within so long: a thread that was stopped
    /// by a fatal signal may hold them for good.
    pub fn are_free(&self, patience: Duration) -> bool {
        self.state.try_lock_for(patience).is_some()
    }

    /// A launch became part of a graph.
    pub fn count_captured(&self) {
        self.state.lock().captured += 1;
    }

    /// A launch could not be timed.
    pub fn count_not_timed(&self) {
        self.state.lock().not_timed += 1;
    }

    /// The row of a graph, by its executable.
    pub fn graph(&self, executable: u64) -> Row {
        let state = &mut *self.state.lock();
        let next = state.graphs.len();
        let index = *state.by_graph.entry(executable).or_insert(next);
        if index == next {
            state.graphs.push(Durations::default());
        }
        Row::Graph(index)
    }

    /// The row of code that was launched before.
    pub fn kernel(&self, launched: u64, ran: Ran) -> Option<Row> {
        let state = self.state.lock();
        state
            .by_handle
            .get(&(launched, ran))
            .copied()
            .map(Row::Kernel)
    }

    /// The row of code that is launched for the first time, while so much of
    /// the device's memory is in use.
    pub fn add_kernel(&self, launched: u64, kernel: TimedKernel, memory_used: Option<u64>) -> Row {
        let state = &mut *self.state.lock();
        state.memory_used = state.memory_used.max(memory_used);
        let ran = kernel.ran;
        let same = |(known, _): &(TimedKernel, Durations)| {
            known.name == kernel.name && known.ran == kernel.ran
        };
        let index = state.kernels.iter().position(same).unwrap_or_else(|| {
            state.kernels.push((kernel, Durations::default()));
            state.kernels.len() - 1
        });
        state.by_handle.insert((launched, ran), index);
        Row::Kernel(index)
    }

    /// Two events of a context that are not in use, if there are any.
    pub fn take_events(&self, context: CUcontext) -> Option<Events> {
        self.state.lock().free.get_mut(&context.0)?.pop()
    }

    /// Two events of a context are not in use any more.
    pub fn give_back(&self, context: CUcontext, events: Events) {
        let mut state = self.state.lock();
        state.free.entry(context.0).or_default().push(events);
    }

    /// Takes all events of a context that are not in use.
    pub fn take_all_events(&self, context: CUcontext) -> Vec<Events> {
        self.state
            .lock()
            .free
            .remove(&context.0)
            .unwrap_or_default()
    }

    /// A launch is between its events. Whether times are to be read now.
    pub fn launched(&self, launch: Pending) -> bool {
        let mut state = self.state.lock();
        state.pending.push_back(launch);
        let count = state.pending.len();
        count >= BATCH && count.is_multiple_of(BATCH / 4)
    }

    /// Takes all launches whose times are not read.
    pub fn take_pending(&self) -> VecDeque<Pending> {
        std::mem::take(&mut self.state.lock().pending)
    }

    /// Ends what [`Times::take_pending`] began. What other threads launched
    /// meanwhile is newer.
    pub fn put_back(&self, mut left: VecDeque<Pending>) {
        let mut state = self.state.lock();
        left.append(&mut state.pending);
        state.pending = left;
    }

    /// Launches whose times are not read.
    pub fn pending(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// A launch has ended, and took so long; `None`: that is not known.
    pub fn ended(&self, launch: &Pending, microseconds: Option<f64>) {
        let mut state = self.state.lock();
        match (microseconds, launch.row) {
            (None, _) => state.not_timed += 1,
            (Some(time), Row::Kernel(row)) => state.kernels[row].1.add(time),
            (Some(time), Row::Graph(row)) => state.graphs[row].add(time),
        }
        let free = state.free.entry(launch.context.0).or_default();
        free.push(launch.events);
    }

    /// Code has gone, and handles may come again.
    pub fn forget_kernels(&self) {
        self.state.lock().by_handle.clear();
    }

    /// An instantiated graph has gone, and its handle may come again.
    pub fn forget_graph(&self, executable: u64) {
        self.state.lock().by_graph.remove(&executable);
    }

    /// What is known, for a device.
    pub fn of_process(&self, device: DeviceKind, device_name: String) -> ProcessTimes {
        let state = self.state.lock();
        let mut kernels: Vec<KernelTimes> = state
            .kernels
            .iter()
            // A kernel whose launches all failed, or were not timed, took no time.
            .filter(|(_, durations)| durations.times().launches > 0)
            .map(|(kernel, durations)| KernelTimes {
                name: kernel.name.clone(),
                demangled: report::demangle(&kernel.name),
                ran: kernel.ran,
                registers: kernel.registers,
                local_bytes: kernel.local_bytes,
                times: durations.times(),
            })
            .collect();
        kernels.sort_by(|a, b| b.times.total_us.total_cmp(&a.times.total_us));
        let pending = state.pending.len() as u64;
        ProcessTimes {
            pid: std::process::id(),
            program: std::env::current_exe()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            device,
            device_name,
            memory_used: state.memory_used,
            kernels,
            graphs: state.graphs.iter().map(Durations::times).collect(),
            captured: state.captured,
            not_timed: state.not_timed + pending,
        }
    }
}
