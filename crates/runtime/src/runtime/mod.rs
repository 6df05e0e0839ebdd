//! The runtime of one process: what the shim's hooks call.
//!
//! * [`allocations`] records memory that comes and goes;
//! * [`decide`] says how a kernel is launched;
//! * [`waits`] is what is known once the program has waited;
//! * [`found`] turns records into findings;
//! * [`failures`] is what happens when the device stops a kernel;
//! * [`end`] reports what is left.

mod allocations;
mod decide;
mod end;
mod failures;
mod found;
mod waits;

pub use allocations::Belongs;
pub(crate) use allocations::is_seen_by_the_host;

use crate::canaries::Canaries;
use crate::deep_stacks::DeepStacks;
use crate::drain::Drain;
use crate::findings::Findings;
use crate::launches::Launches;
use crate::maps::HostMemory;
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::modules::Modules;
use crate::streams::Streams;
use crate::watch::Watch;
use crate::watcher::Watcher;
use crate::window::LaunchWindow;
use driver::Driver;
use failures::Failures;
use heap::Block;
use host::Output;
use model::{Coverage, Finding, Settings};
use parking_lot::Mutex;
use report::Event;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The runtime could not start; the program should run without it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log file or the session directory cannot be written.
    #[error("{0}")]
    Output(String),
}

/// What Ringfence knows and does in one process. All methods may be called
/// from any thread.
pub struct Runtime {
    me: Weak<Runtime>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) memory: Memory,
    /// What the device may access of the host's memory as it is.
    pub(crate) host_memory: HostMemory,
    pub(crate) canaries: Canaries,
    pub(crate) streams: Streams,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) deep_stacks: DeepStacks,
    pub(crate) modules: Modules,
    pub(crate) launches: Launches,
    pub(crate) failures: Failures,
    pub(crate) findings: Findings,
    drain: Drain,
    pub(crate) output: Arc<Output>,
    window: LaunchWindow,
    watcher: Watcher,
    pub(crate) watch: Watch,
    /// Copies, memsets and frees that were checked.
    pub(crate) calls: AtomicU64,
    /// Kernels that look pointers up may be running.
    lookups_outstanding: AtomicBool,
    /// Some kernel looks pointers up.
    looks_up: AtomicBool,
    finished: AtomicBool,
    ended: AtomicBool,
    /// Exit handlers are running.
    exiting: AtomicBool,
    /// What was live on the device heap when they began.
    heap_at_exit: Mutex<Option<Vec<Block>>>,
    summarized: AtomicBool,
    snapshot: Mutex<Snapshot>,
}

struct Snapshot {
    /// When coverage was last left; `None`: never.
    at: Option<Instant>,
    /// What was left last, and how often each finding was seen by then.
    complete: Option<(Coverage, Vec<(u64, u64)>)>,
}

impl Runtime {
    /// Starts the runtime over a device. Nothing is mapped yet.
    ///
    /// # Errors
    ///
    /// A file that the settings name cannot be written.
    pub fn new(settings: Settings, driver: Arc<dyn Driver>) -> Result<Arc<Runtime>, StartError> {
        let settings = Arc::new(settings);
        let output = Output::open(&settings, "").map_err(StartError::Output)?;
        let output = Arc::new(output);
        output.event(&Event::Start {
            pid: std::process::id(),
            program: std::env::current_exe()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            device: driver.kind(),
            device_name: driver.name(),
            driver_version: driver.version(),
        });
        let window = LaunchWindow::new(settings.launch_skip, settings.launch_count);
        let memory = Memory::new(if settings.check {
            settings.quarantine_size
        } else {
            0
        });
        let watch = Watch::new(&settings);
        let canaries = Canaries::new(&settings);
        let metadata = Arc::new(Metadata::default());
        let launches = Launches::new(settings.clone());
        let modules = Modules::new(
            settings.clone(),
            driver.clone(),
            output.clone(),
            metadata.clone(),
        );
        Ok(Arc::new_cyclic(|me| Runtime {
            me: me.clone(),
            host_memory: HostMemory::default(),
            canaries,
            settings,
            driver,
            memory,
            streams: Streams::default(),
            metadata,
            deep_stacks: DeepStacks::default(),
            modules,
            launches,
            failures: Failures::default(),
            findings: Findings::default(),
            drain: Drain::default(),
            output,
            window,
            watcher: Watcher::default(),
            watch,
            calls: AtomicU64::new(0),
            lookups_outstanding: AtomicBool::new(false),
            looks_up: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            exiting: AtomicBool::new(false),
            heap_at_exit: Mutex::new(None),
            summarized: AtomicBool::new(false),
            snapshot: Mutex::new(Snapshot {
                at: None,
                complete: None,
            }),
        }))
    }

    /// The settings that it runs under.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The modules that the program has loaded, and their kernels.
    #[inline]
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// The device that it runs on.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Says something that went wrong, on stderr or in the log, and to the
    /// command; each text once. `fatal`: nothing can be checked any more.
    pub fn report_error(&self, message: &str, fatal: bool) {
        self.output.error(message, fatal);
    }

    pub(crate) fn me(&self) -> Weak<Runtime> {
        self.me.clone()
    }

    /// Reports a finding that was made while the program runs, and ends the
    /// process if the user asks for that. Its kernels end with it.
    pub(crate) fn publish(&self, id: u64, finding: &Finding) {
        let is_shown = self.output.finding(id, finding);
        if is_shown && self.settings.halt_on_error && self.output.is_ours() {
            self.leave_totals();
            self.output
                .line("ringfence: the program is ended because of --halt-on-error\n");
            driver::end_process(self.settings.error_exitcode.into());
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn watcher(&self) -> &Watcher {
        &self.watcher
    }
}
