//! The runtime of one process: what the shim's hooks call.

use crate::canaries::checks::Reach;
use crate::canaries::{Canaries, LaunchTrace};
use crate::drain::{Drain, Mode};
use crate::findings::{self, Findings, HostError, Key, Violation};
use crate::functions::{Counts, Function, Functions};
use crate::launches::{Launch, LaunchDecision, LaunchParameter, Launches, Root, Roots};
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::plan::{ModulePart, ModulePlan, PartPlan, Prepared};
use crate::prepare::{self, Wanted};
use crate::proof::Answers;
use crate::streams::{self, StreamName, StreamUse, Streams, UseOrder, User};
use crate::watch::Watch;
use crate::watcher::Watcher;
use crate::window::LaunchWindow;
use driver::Driver;
use heap::{Block, Entry, Owner};
use host::Output;
use host::stacks::{self, Stack};
use instrument::{EntryPlan, LaunchShape};
use model::layout::Record;
use model::layout::records::HEAP_RECORD;
use model::{
    AllocationKind, Coverage, DeviceAddress, Extent, Finding, LeakCheck, Note, Prove, Rule,
    Settings, SiteId, UncheckedReason,
};
use parking_lot::{Mutex, RwLock};
use report::Event;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often a running process leaves its coverage, in case it is killed.
const SNAPSHOT: Duration = Duration::from_secs(1);
/// Exit status of a process that is ended at a finding, if the user wants no
/// other: what the command ends with then.
const HALTED: u8 = 98;
/// User addresses lie between these; anything else is not worth a driver call.
const LOWEST_ADDRESS: u64 = 4096;
const HIGHEST_ADDRESS: u64 = 1 << 47;

/// The runtime could not start; the program should run without it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log file or the session directory cannot be written.
    #[error("{0}")]
    Output(String),
}

/// The allocation that a pointer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belongs {
    /// Which: no other has or had this number.
    pub serial: u64,
    /// Whether the program allocated it, and none of its graphs.
    pub is_own: bool,
}

/// What Ringfence knows and does in one process. All methods may be called
/// from any thread.
pub struct Runtime {
    me: Weak<Runtime>,
    pub(crate) settings: Settings,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) memory: Memory,
    pub(crate) canaries: Canaries,
    pub(crate) streams: Streams,
    pub(crate) metadata: Metadata,
    modules: RwLock<FxHashMap<u64, Arc<ModulePlan>>>,
    functions: Functions,
    pub(crate) launches: Launches,
    pub(crate) findings: Findings,
    drain: Drain,
    pub(crate) output: Output,
    window: LaunchWindow,
    watcher: Watcher,
    pub(crate) watch: Watch,
    next_launch: AtomicU64,
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
        let output = Output::open(&settings, "").map_err(StartError::Output)?;
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
        Ok(Arc::new_cyclic(|me| Runtime {
            me: me.clone(),
            canaries,
            settings,
            driver,
            memory,
            streams: Streams::default(),
            metadata: Metadata::default(),
            modules: RwLock::default(),
            functions: Functions::default(),
            launches: Launches::new(),
            findings: Findings::default(),
            drain: Drain::default(),
            output,
            window,
            watcher: Watcher::default(),
            watch,
            next_launch: AtomicU64::new(0),
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

    /// The device that it runs on.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Decides what to load for a module. Several parts are linked together
    /// (`nvcc -rdc=true`).
    pub fn prepare_module(&self, parts: &[ModulePart<'_>]) -> Prepared {
        let capability = self
            .driver
            .compute_capability()
            .map_err(|error| error.to_string());
        let prepared = prepare::prepare(parts, capability, Wanted::by(&self.settings));
        if let Some((UncheckedReason::NotInstrumentable | UncheckedReason::Failed, message)) =
            prepared.plan().unchecked()
        {
            self.output
                .error(&format!("a module runs without checks: {message}"), false);
        }
        prepared
    }

    /// The driver has loaded a prepared module under this handle.
    pub fn module_loaded(&self, module: u64, plan: Arc<ModulePlan>) {
        for part in &plan.parts {
            self.findings.add_part(part);
        }
        if plan.uses_device_malloc() {
            self.metadata.allow_misses();
        }
        self.modules.write().insert(module, plan);
    }

    /// The driver refused the instrumented text; the original will be loaded
    /// under the same plan.
    pub fn module_rejected(&self, plan: &ModulePlan, message: &str) {
        plan.reject(message.to_string());
        self.output.error(
            &format!("the driver refused the instrumented form of a module, which runs without checks: {message}"),
            false,
        );
    }

    /// The program is about to unload a module.
    pub fn module_unloading(&self, module: u64) {
        self.functions.unload(module);
        self.modules.write().remove(&module);
    }

    /// The plan of a loaded module.
    pub fn module_plan(&self, module: u64) -> Option<Arc<ModulePlan>> {
        self.modules.read().get(&module).cloned()
    }

    /// The program got a handle of a kernel; `checked` is the handle of its
    /// instrumented copy.
    pub fn function_resolved(&self, function: u64, module: u64, name: &str, checked: Option<u64>) {
        // Programs resolve a kernel again and again; its counts must stay.
        if self.functions.knows(function, module, name, checked) {
            return;
        }
        let plan = self.module_plan(module);
        let entry = plan.as_ref().and_then(|plan| plan.entry(name).cloned());
        let excluded = !self.settings.selects_kernel(name, &report::demangle(name));
        self.functions.insert(
            function,
            Function {
                name: name.to_string(),
                module,
                checked,
                entry,
                plan,
                excluded,
                checked_threads: AtomicU32::new(0),
                stacks: AtomicU32::new(0),
                answers: Answers::default(),
                counts: Counts::default(),
            },
        );
    }

    /// The largest block that the instrumented copy of a kernel can be
    /// launched with (`CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`).
    pub fn checked_limit(&self, function: u64, threads: u32) {
        if let Some(function) = self.functions.get(function) {
            function.checked_threads.store(threads, Ordering::Relaxed);
        }
    }

    /// The program asked for the address of a module's variable.
    pub fn variable_resolved(&self, name: &str, extent: Extent) {
        let known = self.memory.read(|registry| {
            registry.at(extent.base).is_some_and(|entry| {
                entry.allocation.kind == AllocationKind::Variable
                    && entry.allocation.extent == extent
            })
        });
        if !known {
            self.memory.insert(
                AllocationKind::Variable,
                extent,
                Some(name.to_string()),
                None,
            );
            self.memory_changed();
        }
    }

    /// What to ask the driver for, so that a pointer one past the end of an
    /// allocation is never the base of another.
    pub fn padded_size(&self, size: u64) -> u64 {
        if self.settings.check {
            heap::padded_size(size)
        } else {
            size
        }
    }

    /// The program has a new allocation of these bytes (its own size, not the
    /// padded one), which is not its own to free.
    pub fn allocated(&self, kind: AllocationKind, extent: Extent) {
        self.allocated_by(kind, extent, Owner::default());
    }

    /// The program has a new allocation of these bytes (its own size, not the
    /// padded one).
    pub fn allocated_by(&self, kind: AllocationKind, extent: Extent, owner: Owner) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.streams.forget(extent);
        self.memory.insert_owned(kind, extent, None, owner, stack);
        self.memory_changed();
    }

    /// The program is about to free the allocation that starts here, by a call
    /// that [`Runtime::free`] is not asked about.
    pub fn freeing(&self, base: DeviceAddress) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.memory.remove(base, stack);
    }

    /// The program allocated memory in a stream, after
    /// [`Runtime::allocated_by`].
    pub fn allocated_in_stream(&self, extent: Extent, stream: StreamUse) {
        if self.settings.check {
            self.streams.allocated(extent, stream);
        }
    }

    /// Whether the order of streams matters; if not, it need not be told.
    pub fn tracks_streams(&self) -> bool {
        self.streams.are_tracked()
    }

    /// The program does something that orders streams.
    pub fn ordered(&self, what: streams::Ordering) {
        self.streams.tell(what);
    }

    /// The program has waited for a stream.
    pub fn waited_for(&self, stream: StreamName) {
        self.memory.left(|leaving| leaving.stream == stream);
        self.streams.tell(streams::Ordering::HostWaited(stream));
        self.after_wait(Some(stream));
    }

    /// The program has waited for all that was put into the streams of a
    /// context; kernels of other contexts may still run.
    pub fn waited_for_context(&self, context: u64) {
        self.memory.left(|leaving| leaving.context == context);
        self.streams.tell(streams::Ordering::Everything);
        self.memory.settle_parts(context);
        self.after_wait(None);
    }

    /// A context is gone, and with it all that it allocated.
    pub fn context_gone(&self, context: u64) {
        let stack = stacks::capture(self.settings.num_callers_host);
        let theirs = self.memory.context_gone(context, &stack);
        let slots = theirs.iter().filter_map(|entry| entry.owner.around.slot);
        self.canaries_gone(context, slots);
        self.report_leaks(&theirs);
        self.metadata.forget_heap_of(context);
        self.watch().context_gone(context);
    }

    /// The allocation that holds an address, with the size that the program
    /// asked for. Of mapped memory the driver has its own idea.
    pub fn extent_of(&self, address: DeviceAddress) -> Option<Extent> {
        self.memory.read(|registry| {
            registry
                .holding(address)
                .map(|entry| &entry.allocation)
                .filter(|allocation| allocation.kind != AllocationKind::Mapped)
                .map(|allocation| allocation.extent)
        })
    }

    /// The program has reserved addresses, in which it may map memory.
    pub fn reserved(&self, extent: Extent) {
        self.memory.reserve(extent);
    }

    /// The program gives a reservation back, in which nothing is mapped.
    /// Returns it, for [`Runtime::reserved`] in case that fails.
    pub fn unreserving(&self, base: DeviceAddress) -> Option<Extent> {
        self.memory.unreserve(base)
    }

    /// The program has mapped memory.
    pub fn mapped(&self, extent: Extent, owner: Owner) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.streams.forget(extent);
        self.memory.map(extent, owner, stack);
        self.memory_changed();
    }

    /// The program has unmapped memory.
    pub fn unmapped(&self, extent: Extent) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.memory.unmap(extent, stack);
    }

    /// A kernel that looks pointers up may be running, and may be given the
    /// new allocation through memory.
    pub(crate) fn memory_changed(&self) {
        if self.lookups_outstanding.load(Ordering::Relaxed) {
            self.flush_tables();
        }
    }

    fn flush_tables(&self) {
        if let Err(message) = self.metadata.flush(&*self.driver, &self.memory) {
            self.output.error(&message, false);
        }
    }

    /// Decides how a kernel is launched. `read_parameter` reads so many bytes,
    /// up to eight, at an offset of its parameter block; `None` if they are
    /// not there. Call it for every
    /// launch, and launch what it answers.
    pub fn plan_launch(
        &self,
        function: u64,
        shape: &LaunchShape,
        read_parameter: &dyn Fn(u32, u8) -> Option<u64>,
    ) -> LaunchDecision {
        self.plan_launch_in(None, function, shape, read_parameter)
    }

    /// As [`Runtime::plan_launch`], in a known stream. That needs to be known
    /// only while [`Runtime::tracks_streams`].
    pub fn plan_launch_in(
        &self,
        stream: Option<StreamUse>,
        function: u64,
        shape: &LaunchShape,
        read_parameter: &dyn Fn(u32, u8) -> Option<u64>,
    ) -> LaunchDecision {
        self.plan_launch_traced(stream, function, shape, read_parameter)
            .0
    }

    /// As [`Runtime::plan_launch_in`]. What comes with the decision is to be
    /// given to [`Runtime::launched`] when the launch was made: canaries are
    /// verified after it.
    pub fn plan_launch_traced(
        &self,
        stream: Option<StreamUse>,
        function: u64,
        shape: &LaunchShape,
        read_parameter: &dyn Fn(u32, u8) -> Option<u64>,
    ) -> (LaunchDecision, Option<LaunchTrace>) {
        if self.exiting.load(Ordering::Relaxed) {
            // It may free what was live before.
            *self.heap_at_exit.lock() = None;
        }
        let Some(function) = self.functions.get(function) else {
            self.functions.count_unknown(UncheckedReason::LaunchPath);
            self.streams.tell(streams::Ordering::Everything);
            return (LaunchDecision::Original, self.trace(None));
        };
        if !self.settings.protect.bounds {
            let trace = self.plan_canaries(&function, read_parameter);
            let decision = self.plan_heap(&function, shape);
            return (decision.unwrap_or(LaunchDecision::Original), trace);
        }
        match self.decide(stream, &function, shape, read_parameter) {
            Ok(decision) => (decision, None),
            Err(reason) => {
                function.counts.unchecked(reason);
                // It may do anything, such as telling the host of its progress.
                self.streams.tell(streams::Ordering::Everything);
                let trace = match reason {
                    UncheckedReason::Excluded => None,
                    _ => self.trace(Some(&function)),
                };
                if trace.is_some() {
                    function.counts.verified();
                }
                (LaunchDecision::Original, trace)
            }
        }
    }

    /// Of a launch that may write to any buffer, if canaries are verified.
    fn trace(&self, function: Option<&Arc<Function>>) -> Option<LaunchTrace> {
        self.checks_canaries().then(|| LaunchTrace {
            function: function.cloned(),
            reach: Reach::All,
            launch: self.next_launch.fetch_add(1, Ordering::Relaxed) + 1,
            stack: function.and_then(|function| self.launch_stack(function)),
        })
    }

    /// Without bounds, canaries are what there is.
    fn plan_canaries(
        &self,
        function: &Arc<Function>,
        read_parameter: &dyn Fn(u32, u8) -> Option<u64>,
    ) -> Option<LaunchTrace> {
        if !self.settings.check || function.excluded || !self.window.admits() {
            function.counts.unchecked(UncheckedReason::Excluded);
            return None;
        }
        function.counts.checked();
        let trace = self.trace(Some(function))?;
        let written = function
            .plan
            .as_ref()
            .and_then(|plan| plan.written(&function.name));
        let reach = written.and_then(|offsets| self.reach_of(offsets, read_parameter));
        Some(LaunchTrace {
            reach: reach.unwrap_or(Reach::All),
            ..trace
        })
    }

    /// The call stack of a launch, for as many of each kernel as are kept.
    fn launch_stack(&self, function: &Function) -> stacks::Stack {
        let kept = self.settings.launch_backtraces;
        let wanted = function.stacks.load(Ordering::Relaxed) < kept;
        if wanted && function.stacks.fetch_add(1, Ordering::Relaxed) < kept {
            stacks::capture(self.settings.num_callers_host)
        } else {
            None
        }
    }

    fn decide(
        &self,
        stream: Option<StreamUse>,
        function: &Arc<Function>,
        shape: &LaunchShape,
        read_parameter: &dyn Fn(u32, u8) -> Option<u64>,
    ) -> Result<LaunchDecision, UncheckedReason> {
        let plan = function.plan.as_ref().ok_or(UncheckedReason::LaunchPath)?;
        if let Some(reason) = plan.unchecked_reason() {
            return Err(reason);
        }
        if plan.changes_originals() {
            self.make_ready(plan)?;
        }
        if function.excluded || !self.window.admits() {
            return Err(UncheckedReason::Excluded);
        }
        let entry = function
            .entry
            .as_ref()
            .ok_or(UncheckedReason::NotInstrumentable)?;
        if entry.checked_name.is_none() {
            self.streams.tell(streams::Ordering::Everything);
            if plan.instruments_functions()
                && entry.coverage.exact_sites + entry.coverage.weak_sites > 0
            {
                function.counts.checked();
                self.watcher.launched(&self.me);
            } else {
                // Nothing in it can go wrong.
                function.counts.proved();
            }
            return Ok(LaunchDecision::Original);
        }
        let checked = function.checked.ok_or(UncheckedReason::Rejected)?;
        let roots = self
            .roots(stream, function, entry, read_parameter)
            .ok_or(UncheckedReason::LaunchPath)?;
        let proved = match &entry.proof {
            Ok(program) if self.settings.prove != Prove::Off => {
                function
                    .answers
                    .proves(program, shape, &roots, read_parameter)
            }
            _ => false,
        };
        if proved && self.settings.prove == Prove::On {
            function.counts.proved();
            return Ok(LaunchDecision::Original);
        }
        self.make_ready(plan)?;
        let decision = self.copy_of(function, shape, checked, roots, proved)?;
        function.counts.checked();
        Ok(decision)
    }

    /// Launches the copy of a kernel, as a launch of its own number.
    fn copy_of(
        &self,
        function: &Arc<Function>,
        shape: &LaunchShape,
        copy: u64,
        roots: Roots,
        proved: bool,
    ) -> Result<LaunchDecision, UncheckedReason> {
        let entry = function
            .entry
            .as_ref()
            .ok_or(UncheckedReason::NotInstrumentable)?;
        let limit = function.checked_threads.load(Ordering::Relaxed);
        let threads = shape
            .block
            .iter()
            .fold(1u32, |threads, side| threads.saturating_mul(*side));
        if limit != 0 && threads > limit {
            return Err(UncheckedReason::Registers);
        }
        let id = self.next_launch.fetch_add(1, Ordering::Relaxed) + 1;
        let launch_parameter = match entry.launch_parameter {
            Some(_) => launch_parameter(id, &roots),
            None => LaunchParameter::new(),
        };
        let stack = self.launch_stack(function);
        self.launches.remember(Launch {
            id,
            function: function.clone(),
            roots,
            stack,
            proved,
        });
        self.watcher.launched(&self.me);
        Ok(LaunchDecision::Checked {
            function: copy,
            launch_parameter,
            plan: entry.clone(),
        })
    }

    /// Without bounds, of a kernel whose module allocates on the device heap:
    /// the copy that passes the launch on, so that blocks know theirs.
    fn plan_heap(&self, function: &Arc<Function>, shape: &LaunchShape) -> Option<LaunchDecision> {
        let plan = function.plan.as_ref()?;
        if !plan.uses_device_heap() || plan.unchecked_reason().is_some() {
            return None;
        }
        // The program's own kernels allocate there, too.
        self.make_ready(plan).ok()?;
        self.watcher.launched(&self.me);
        let copy = function.checked.filter(|_| !function.excluded)?;
        self.copy_of(function, shape, copy, Roots::new(), false)
            .ok()
    }

    /// What code of the module needs on the device before it runs.
    fn make_ready(&self, plan: &ModulePlan) -> Result<(), UncheckedReason> {
        if let Err(message) = self.metadata.attach(&*self.driver) {
            self.output.error(&message, true);
            return Err(UncheckedReason::Failed);
        }
        if plan.uses_device_heap()
            && let Err(message) = self.metadata.attach_heap(&*self.driver, &self.settings)
        {
            self.output.error(&message, false);
        }
        if plan.uses_lookups() {
            self.looks_up.store(true, Ordering::Relaxed);
            self.lookups_outstanding.store(true, Ordering::Relaxed);
            self.flush_tables();
        }
        if let Err(error) = self.metadata.publish_miss_size(&*self.driver) {
            self.output.error(&error.to_string(), true);
            return Err(UncheckedReason::Failed);
        }
        Ok(())
    }

    /// The pointer parameters and what they point into. `None` if one cannot
    /// be read.
    fn roots(
        &self,
        stream: Option<StreamUse>,
        function: &Arc<Function>,
        entry: &EntryPlan,
        read: &dyn Fn(u32, u8) -> Option<u64>,
    ) -> Option<Roots> {
        let mut roots: Roots = Roots::with_capacity(entry.roots.len());
        let nothing = Extent {
            base: DeviceAddress(0),
            size: 0,
        };
        for offset in &entry.roots {
            roots.push(Root {
                offset: *offset,
                pointer: read(*offset, 8)?,
                bounds: nothing,
                wrong: None,
            });
        }
        let mut unknown = false;
        let mut signals = false;
        self.memory.read(|registry| {
            for root in &mut roots {
                match registry.find_part(DeviceAddress(root.pointer)) {
                    Some(found) => {
                        root.bounds = found.allocation.extent;
                        signals |= is_seen_by_the_host(found.allocation.kind);
                    }
                    None => unknown |= is_user_address(root.pointer),
                }
            }
        });
        if unknown {
            for root in roots.iter_mut().filter(|root| root.bounds.size == 0) {
                let pointer = DeviceAddress(root.pointer);
                let found = if self.is_in_heap(pointer) {
                    self.heap_bounds(pointer)
                } else {
                    self.ask_driver(pointer)
                };
                root.bounds = found.unwrap_or(nothing);
            }
        }
        if let Some(stream) = stream.filter(|_| self.streams.are_tracked()) {
            let addresses: SmallVec<[DeviceAddress; 4]> =
                roots.iter().map(|root| root.bounds.base).collect();
            let user = User::Kernel(function.clone());
            let orders = self.streams.used(stream, &user, signals, addresses);
            for (root, order) in roots.iter_mut().zip(orders) {
                match order {
                    UseOrder::Right => continue,
                    UseOrder::Freed => root.wrong = Some(Rule::UseAfterFree),
                    UseOrder::Wrong(rule) => root.wrong = Some(rule),
                }
                root.bounds = nothing;
            }
        }
        Some(roots)
    }

    /// A number that is another whenever memory was allocated or freed.
    pub fn memory_generation(&self) -> u64 {
        self.memory.generation()
    }

    /// The allocation that a pointer belongs to, unless the program has freed
    /// it, if only in stream order.
    pub fn belongs_to(&self, pointer: DeviceAddress) -> Option<Belongs> {
        self.memory.look(|registry, _, leaving| {
            let entry = registry.find(pointer)?;
            let base = entry.allocation.extent.base.0;
            (!leaving.contains_key(&base)).then_some(Belongs {
                serial: entry.allocation.serial,
                is_own: entry.owner.context != 0,
            })
        })
    }

    /// Asks the driver for an allocation that was made by a call which is not
    /// hooked, and remembers it.
    pub(crate) fn ask_driver(&self, address: DeviceAddress) -> Option<Extent> {
        // What is in the quarantine the driver still has, the program has not;
        // what a pool has not handed out is nobody's, nor is what is reserved
        // and not mapped.
        if !is_user_address(address.0)
            || self.memory.is_held(address)
            || self.memory.reservation_of(address).is_some()
            || self.pool_of(address).is_some()
        {
            return None;
        }
        let extent = self.driver.allocation_of(address)?;
        // Bytes beside a buffer of the program's are its canaries.
        if self.memory.is_around(extent) {
            return None;
        }
        let belongs = address.0.wrapping_sub(extent.base.0) <= extent.size && extent.size != 0;
        if !belongs {
            return None;
        }
        self.streams.forget(extent);
        self.memory
            .insert(AllocationKind::Foreign, extent, None, None);
        Some(extent)
    }

    /// A kernel was launched by a call that [`Runtime::plan_launch`] is not
    /// asked about.
    pub fn unhooked_launch(&self, function: u64, reason: UncheckedReason) {
        let Some(function) = self.functions.get(function) else {
            if let Some(trace) = self.trace(None) {
                self.launched(trace, crate::Where::Unknown);
            }
            return self.functions.count_unknown(reason);
        };
        function.counts.unchecked(reason);
        if let Some(trace) = self.trace(Some(&function)) {
            function.counts.verified();
            self.launched(trace, crate::Where::Unknown);
        }
        // The kernel itself is the program's own; functions that are checked in
        // place are so all the same, and allocations go to our heap.
        // Failure to get ready is said there.
        if let Some(plan) = function
            .plan
            .as_ref()
            .filter(|plan| plan.changes_originals())
        {
            let _ = self.make_ready(plan);
            self.watcher.launched(&self.me);
        }
    }

    /// The driver refused to launch the instrumented copy, and the program's
    /// kernel was launched instead. What this returns is for
    /// [`Runtime::launched`].
    pub fn launched_original_instead(
        &self,
        function: u64,
        reason: UncheckedReason,
    ) -> Option<LaunchTrace> {
        let function = self.functions.get(function)?;
        function.counts.not_checked_after_all();
        function.counts.unchecked(reason);
        let trace = self.trace(Some(&function))?;
        function.counts.verified();
        Some(trace)
    }

    /// The program is about to launch a graph, whose kernels may look pointers
    /// up, and find what the program allocates while they run.
    pub fn graph_launching(&self) {
        if self.looks_up.load(Ordering::Relaxed) {
            self.lookups_outstanding.store(true, Ordering::Relaxed);
            self.flush_tables();
        }
    }

    /// The program waited for the device: whatever its kernels have found is
    /// reported before this returns.
    pub fn synchronized(&self) {
        self.watcher.synchronized();
        self.lookups_outstanding.store(false, Ordering::Relaxed);
        self.verify_heap_unguarded();
        self.run_drain(Mode::Wait);
        let due = {
            let mut snapshot = self.snapshot.lock();
            let due = snapshot.at.is_none_or(|at| at.elapsed() >= SNAPSHOT);
            if due {
                snapshot.at = Some(Instant::now());
            }
            due
        };
        if due {
            self.output.coverage(&self.coverage(), false);
        }
    }

    /// The program has destroyed or reset a context, after
    /// [`Runtime::synchronized`]. What Ringfence keeps on the device may be
    /// gone with it; the next launch finds out.
    pub fn context_destroyed(&self) {
        self.metadata.doubt();
        self.canaries.doubt();
    }

    /// The process is about to end: reports what is left, and the coverage.
    /// May be called again; says only what is new.
    pub fn finish(&self) {
        if !self.output.is_ours() {
            return;
        }
        self.watch().end();
        self.run_drain(Mode::Last);
        self.finished.store(true, Ordering::Release);
        let coverage = self.coverage();
        let occurrences = self.findings.occurrences();
        let now = Some((coverage.clone(), occurrences.clone()));
        let is_new = {
            let mut snapshot = self.snapshot.lock();
            let is_new = snapshot.complete != now;
            snapshot.complete = now;
            is_new
        };
        if is_new {
            for (id, occurrences) in &occurrences {
                self.output.event(&Event::Occurrences {
                    id: *id,
                    occurrences: *occurrences,
                });
            }
            self.output.coverage(&coverage, true);
        }
        // Leaks are known at the very end, and are to be counted.
        let is_last =
            self.settings.leak_check == LeakCheck::No || self.ended.load(Ordering::Acquire);
        if !is_last || self.summarized.swap(true, Ordering::AcqRel) {
            return;
        }
        self.output.count_hidden();
        if !self.output.has_session() {
            let mut totals = report::Totals {
                coverage,
                ..report::Totals::default()
            };
            self.output.count(&occurrences, &mut totals);
            self.output.line(&(report::summary(&totals) + "\n"));
        }
    }

    /// What was checked so far.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.functions.coverage();
        coverage.dropped_records = self.drain.dropped();
        coverage.canaries = self.canaries.coverage();
        let not_watched = self.watch().not_watched();
        if not_watched != 0 {
            coverage.notes.insert(Note::NotWatched, not_watched);
        }
        coverage
    }

    /// The host is about to make a call that breaks a rule. Call it on the
    /// program's thread: its stack tells one such call from another.
    pub fn host_error(&self, error: HostError) {
        let callers = self.settings.num_callers_host;
        let stack = stacks::capture(callers);
        let Some(id) = self.findings.count(error.key(&stack)) else {
            return;
        };
        let context = self.memory.look(|registry, _, leaving| {
            findings::call_context(error.pointer, error.address, registry, leaving)
        });
        self.output
            .finding(id, &error.finding(context, &stack, callers));
    }

    /// Reports what of these the program should have freed.
    fn report_leaks(&self, live: &[Entry<Stack>]) {
        if self.settings.leak_check == LeakCheck::No {
            return;
        }
        let callers = self.settings.num_callers_host;
        for entry in live.iter().filter(|entry| is_the_programs(entry)) {
            if let Some(id) = self.findings.count(Key::leak(entry)) {
                self.output.finding(id, &findings::leak(entry, callers));
            }
        }
    }

    /// The program has come to its end: what it has not freed by now it never
    /// will. Then as [`Runtime::finish`].
    pub fn end(&self) {
        if self.output.is_ours() && !self.ended.swap(true, Ordering::AcqRel) {
            self.run_drain(Mode::Last);
            let live = self.memory.look(|registry, _, leaving| {
                let stays =
                    |entry: &&Entry<Stack>| !leaving.contains_key(&entry.allocation.extent.base.0);
                registry.iter().filter(stays).cloned().collect::<Vec<_>>()
            });
            self.report_leaks(&live);
            let at_exit = || self.heap_at_exit.lock().take();
            let blocks = self.live_heap_blocks().or_else(at_exit);
            self.report_device_heap_leaks(blocks.unwrap_or_default());
        }
        self.finish();
    }

    /// The program's exit handlers are about to run, and the driver's among
    /// them shut the device down: the last time to look at its heap. Then as
    /// [`Runtime::finish`]. The first call counts.
    pub fn exit_begins(&self) {
        if self.output.is_ours() {
            self.last_checks();
        }
        if self.settings.leak_check == LeakCheck::Full && self.output.is_ours() {
            let mut blocks = self.heap_at_exit.lock();
            if blocks.is_none() {
                *blocks = self.live_heap_blocks();
            }
            drop(blocks);
            self.exiting.store(true, Ordering::Release);
        }
        self.finish();
    }

    /// Says something that went wrong, on stderr or in the log, and to the
    /// command; each text once. `fatal`: nothing can be checked any more.
    pub fn report_error(&self, message: &str, fatal: bool) {
        self.output.error(message, fatal);
    }

    pub(crate) fn me(&self) -> Weak<Runtime> {
        self.me.clone()
    }

    /// Ends the process if the user wants that at the first finding of this
    /// kind. The device's kernels end with it.
    pub(crate) fn halt_if_wanted(&self) {
        if self.settings.halt_on_error && self.output.is_ours() {
            self.output
                .line("ringfence: the program is ended, as --halt-on-error wants\n");
            driver::end_process(self.settings.error_exitcode.unwrap_or(HALTED).into());
        }
    }

    /// Ordinal of the newest launch.
    pub(crate) fn newest_launch(&self) -> u64 {
        self.next_launch.load(Ordering::Relaxed)
    }

    /// The name of a kernel.
    pub(crate) fn name_of(&self, function: u64) -> Option<String> {
        self.functions
            .get(function)
            .map(|function| function.name.clone())
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// What the watcher does at each tick.
    pub(crate) fn glance(&self) {
        self.run_drain(Mode::Glance);
    }

    fn run_drain(&self, mode: Mode) {
        if let Some(ring) = self.metadata.ring() {
            self.drain
                .run(ring, &*self.driver, mode, |record| self.handle(record));
        }
    }

    /// Reads what the device has recorded.
    pub(crate) fn read_records(&self) {
        self.run_drain(Mode::Wait);
    }

    /// Something that may record was launched.
    pub(crate) fn watch_records(&self) {
        self.watcher.launched(&self.me);
    }

    fn handle(&self, record: &Record) {
        if record.module == model::layout::canary::CANARY_RECORD {
            return self.canary_found(record);
        }
        if record.module == HEAP_RECORD && self.is_of_watched_heap(record) {
            return self.block_overwritten(record);
        }
        let Some(part) = self.findings.part(record.module) else {
            let message = format!(
                "a record names module {:#018x}, which was not loaded through Ringfence (the program may have written \
                 over the record ring); it is ignored",
                record.module
            );
            self.output.error(&message, false);
            return;
        };
        let launch = self.launches.get(record.launch);
        let launch = launch.as_ref();
        let free = part
            .group(SiteId(record.site))
            .next()
            .filter(|site| site.is_free());
        if let Some(site) = free {
            self.wrong_free(&part, site, record, launch);
            return;
        }
        let mut violations = findings::violations(&part, record, launch);
        if violations.is_empty() {
            let message = format!(
                "the check of site {} in module {:#018x} failed at {:#x}, but none of its accesses lies outside the \
                 bounds {:#x} + {}: this is an error of Ringfence, please report it",
                record.site, record.module, record.address, record.base, record.size
            );
            self.output.error(&message, false);
        }
        if let Some(launch) = launch
            && launch.proved
            && !violations.is_empty()
        {
            let message = format!(
                "a launch of {} was proved to be in bounds, but the check of site {} in module {:#018x} failed at \
                 {:#x}: this is an error of Ringfence, please report it, and run with --prove off until it is mended",
                launch.function.name, record.site, record.module, record.address
            );
            self.output.error(&message, true);
        }
        for violation in &mut violations {
            violation.rule = self.heap_rule(violation);
            let pointer = violation.pointer.unwrap_or(violation.address);
            if violation.rule == Rule::InvalidPointer && self.memory.was_freed(pointer) {
                violation.rule = Rule::UseAfterFree;
            }
            self.memory
                .read(|registry| findings::narrow(violation, registry));
            self.found(&part, record, launch, violation);
        }
    }

    fn found(
        &self,
        part: &Arc<PartPlan>,
        record: &Record,
        launch: Option<&Launch>,
        violation: &Violation<'_>,
    ) {
        let in_heap = self.is_in_heap(violation.address);
        if violation.bounds.size == 0 && violation.looked_up && !in_heap {
            // The device knows what the registry knows. If the driver knows
            // more, the program did nothing wrong and Ringfence missed a call.
            let registered = self
                .memory
                .read(|registry| registry.holding(violation.address).is_some());
            if !registered && let Some(extent) = self.ask_driver(violation.address) {
                let message = format!(
                    "memory at {} ({} bytes) was allocated by a call that Ringfence does not hook; an access to it was \
                     held back before that was known, so results of this run may be wrong",
                    extent.base, extent.size
                );
                self.output.error(&message, false);
                return;
            }
        }
        let key = Key::Access(part.tag, violation.site.id, violation.rule);
        let Some(id) = self.findings.count(key) else {
            return;
        };
        let context = self
            .memory
            .look(|registry, _, leaving| findings::context(violation, registry, leaving));
        let mut finding = self.put_together(violation, context, record, part, launch);
        self.add_blocks(violation, &mut finding);
        self.output.finding(id, &finding);
    }

    pub(crate) fn put_together(
        &self,
        violation: &Violation<'_>,
        context: findings::Context,
        record: &Record,
        part: &PartPlan,
        launch: Option<&Launch>,
    ) -> Finding {
        let kernel = launch
            .is_none()
            .then(|| self.functions.only_user_of(part.tag))
            .flatten();
        let callers = self.settings.num_callers_host;
        findings::finding(violation, context, record, launch, kernel, callers)
    }
}

/// Whether the host may read such memory while the device works.
pub(crate) fn is_seen_by_the_host(kind: AllocationKind) -> bool {
    use AllocationKind::{Foreign, Host, HostRegistered, Managed, Region};
    // A declared part may be of any memory.
    matches!(kind, Host | HostRegistered | Managed | Foreign | Region)
}

/// Whether the program made an allocation by a call that asks for memory.
fn is_the_programs(entry: &Entry<Stack>) -> bool {
    use AllocationKind::{Device, Host, Managed, Mapped, Pool};
    let kind = entry.allocation.kind;
    entry.owner.context != 0 && matches!(kind, Device | Managed | Host | Pool | Mapped)
}

fn is_user_address(address: u64) -> bool {
    (LOWEST_ADDRESS..HIGHEST_ADDRESS).contains(&address)
}

fn launch_parameter(id: u64, roots: &[Root]) -> LaunchParameter {
    let mut bytes = LaunchParameter::with_capacity(8 + 16 * roots.len());
    bytes.extend_from_slice(&id.to_le_bytes());
    for root in roots {
        // Functions that the kernel calls know the pointer from nowhere else.
        let base = match root.bounds.size {
            0 if is_user_address(root.pointer) => root.pointer,
            _ => root.bounds.base.0,
        };
        bytes.extend_from_slice(&base.to_le_bytes());
        bytes.extend_from_slice(&root.bounds.size.to_le_bytes());
    }
    bytes
}
