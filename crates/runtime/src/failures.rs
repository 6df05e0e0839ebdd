//! A kernel failed on the device: every call in its context returns the error
//! from then on, and what was put into its streams never runs.

use crate::env::Env;
use crate::findings::{self, Key};
use crate::functions::{Counted, Function};
use crate::kernel::Kernel;
use crate::launches::Launches;
use crate::launches::RecentLaunch;
use crate::memory::Memory;
use crate::modules::Modules;
use crate::records::Records;
use crate::reporter::Reporter;
use driver::sys::CUresult;
use driver::{DeviceFailure, FailedKernel, FailedThread, kernel_error};
use host::stacks;
use model::layout::original_name;
use model::layout::placed::is_placed;
use model::{
    DeviceAddress, DeviceKind, Failure, Finding, Rule, RunningKernel, Subject, UncheckedReason,
};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Failures of the process.
pub struct Failures {
    env: Arc<Env>,
    memory: Arc<Memory>,
    modules: Arc<Modules>,
    launches: Arc<Launches>,
    records: Arc<Records>,
    reporter: Arc<Reporter>,
    /// Contexts in which nothing works any more.
    contexts: Mutex<FxHashSet<u64>>,
    /// What the device reported of the newest.
    newest: Mutex<Option<DeviceFailure>>,
    /// Failures so far.
    number: AtomicU64,
    /// Allocations that a failure kept from being freed.
    held: AtomicU64,
}

/// Has the device leave core dumps, if the user wants that.
fn ask_for_dumps(env: &Env) {
    let settings = env.settings();
    if !settings.check || !settings.core_dump {
        return;
    }
    let folder = settings.session.clone().unwrap_or_else(std::env::temp_dir);
    let file = folder.join(format!("ringfence-core-{}", std::process::id()));
    if let Err(error) = env.driver().dump_failures(&file) {
        let message = format!(
            "findings will not name the kernel that fails, because the driver writes no core dumps: {error}"
        );
        env.error(&message, false);
    }
}

impl Failures {
    pub(crate) fn new(
        env: Arc<Env>,
        memory: Arc<Memory>,
        modules: Arc<Modules>,
        launches: Arc<Launches>,
        records: Arc<Records>,
        reporter: Arc<Reporter>,
    ) -> Failures {
        ask_for_dumps(&env);
        Failures {
            env,
            memory,
            modules,
            launches,
            records,
            reporter,
            contexts: Mutex::default(),
            newest: Mutex::default(),
            number: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }

    /// Whether a kernel has failed in this context.
    pub(crate) fn stands(&self, context: u64) -> bool {
        self.contexts.lock().contains(&context)
    }

    /// Whether the program could free an allocation of this context; counts it
    /// if not, because a kernel has failed there.
    pub(crate) fn could_free(&self, context: u64) -> bool {
        let is_held = self.stands(context);
        if is_held {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
        !is_held
    }

    /// Allocations that a failure kept from being freed.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether a kernel has failed in any context that is still there.
    pub(crate) fn any_stands(&self) -> bool {
        !self.contexts.lock().is_empty()
    }

    /// The context is gone, and its failure with it.
    pub(crate) fn context_gone(&self, context: u64) {
        if self.stands(context) {
            self.count_told(context);
        }
        self.contexts.lock().remove(&context);
        *self.newest.lock() = None;
    }

    /// Whether a failure in this context is another one than those that are
    /// known: the error of one may be returned in all contexts of a device.
    fn is_new(&self, context: u64, known: Option<&DeviceFailure>, is_busy: bool) -> bool {
        let mut contexts = self.contexts.lock();
        let is_first = contexts.is_empty();
        if !contexts.insert(context) || !is_first && !is_busy {
            return false;
        }
        let mut newest = self.newest.lock();
        let is_told = known.is_some_and(|known| known.kernel.is_some()) && newest.as_ref() == known;
        *newest = known.cloned();
        !is_told
    }

    /// A call of the program, or of Ringfence for it, has returned this error.
    /// The first one in a context that says that a kernel failed is reported.
    pub fn kernel_failed(&self, error: CUresult, call: &str) {
        if kernel_error(error).is_none() || !self.env.output().is_ours() {
            return;
        }
        let context = self.env.driver().current_context();
        if self.stands(context) {
            return;
        }
        let known = self.env.driver().failure();
        let outstanding = self.launches.recent().outstanding(context);
        let is_busy = !outstanding.is_empty();
        if !self.is_new(context, known.as_ref(), is_busy) {
            return;
        }
        self.count_not_run(known.as_ref(), &outstanding);
        if let Some(known) = known.as_ref().filter(|known| known.device_lacks) {
            return self.env.error(&known.detail, true);
        }
        if !self.env.settings().check {
            return;
        }
        // What kernels recorded before that comes first: it may say why.
        self.records.read();
        // The trap is Ringfence's own, and the finding says why.
        let is_ours = self.env.settings().trap && error == CUresult::CUDA_ERROR_LAUNCH_FAILED;
        if is_ours && !self.reporter.occurrences().is_empty() {
            return;
        }
        let finding = self.failure(error, known, &outstanding, call);
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        if let Some(id) = self.reporter.count(Key::Failure(number)) {
            self.reporter.publish(id, &finding);
        }
    }

    /// The program ends: a failure that no call of it has returned is reported.
    pub(crate) fn look(&self) {
        if self.any_stands() {
            return;
        }
        if let Some(known) = self.env.driver().failure() {
            if known.device_lacks {
                return self.env.error(&known.detail, true);
            }
            self.kernel_failed(known.code, "");
        }
    }

    fn failure(
        &self,
        error: CUresult,
        known: Option<DeviceFailure>,
        outstanding: &[RecentLaunch],
        call: &str,
    ) -> Finding {
        let callers = self.env.callers();
        let kernel = known.and_then(|known| known.kernel);
        let kernel = kernel.map(|kernel| self.with_address(kernel));
        let mut kernels: Vec<RunningKernel> = Vec::new();
        let mut launch = 0;
        if let Some(kernel) = &kernel {
            let original = self.modules.program_handle(kernel.function);
            let of_it = |recent: &&RecentLaunch| match kernel.function {
                0 => self.modules.name_of(recent.function).as_ref() == Some(&kernel.name),
                _ => Some(recent.function) == original,
            };
            let recent = outstanding.iter().find(of_it);
            launch = recent.map_or(0, |recent| recent.launch);
            kernels.push(RunningKernel {
                kernel: kernel.name.clone(),
                launch,
                stream: recent.map_or_else(
                    || "a stream that is not known".into(),
                    |recent| recent.stream.words(),
                ),
                unfinished: None,
            });
        } else {
            let in_graphs = self.launches.in_graphs();
            for recent in outstanding {
                let of_graph = recent.function == 0 && !in_graphs.is_empty();
                let one = [recent.function];
                for function in if of_graph { &in_graphs[..] } else { &one[..] } {
                    let kernel = self.modules.name_of(*function).unwrap_or_default();
                    let stream = recent.stream.words();
                    // The newest launch of each kernel in a stream stands for all.
                    kernels.retain(|known| known.kernel != kernel || known.stream != stream);
                    kernels.push(RunningKernel {
                        kernel,
                        launch: recent.launch,
                        stream,
                        unfinished: None,
                    });
                }
            }
            if let [only] = kernels.as_slice() {
                launch = only.launch;
            }
        }
        let name = kernels.last().map(|kernel| kernel.kernel.as_str());
        let launched_at = self
            .launches
            .get(launch)
            .filter(|_| launch != 0 && kernels.len() == 1)
            .map_or_else(Vec::new, |launch| {
                stacks::resolve(&launch.stack, callers, name)
            });
        let called_at = if call.is_empty() {
            Vec::new()
        } else {
            stacks::resolve(&stacks::capture(callers), callers, None)
        };
        let address = DeviceAddress(kernel.as_ref().map_or(0, |kernel| kernel.address));
        let placed = self
            .memory
            .look(|registry, _, pending| findings::placed_near(address, registry, pending));
        Finding {
            rule: Rule::KernelFailed,
            address,
            subject: Subject::Failure(Failure {
                error: error.name().unwrap_or("an unknown error").into(),
                code: error.0,
                meaning: kernel_error(error).unwrap_or_default().into(),
                kernels,
                stopped: kernel.map(|kernel| kernel.stopped),
                call: call.into(),
                called_at,
                launched_at,
            }),
            intended: placed.map(|near| near.resolve(address, callers)),
            nearest: None,
            occurrences: 1,
        }
    }

    /// The kernel with the address that no live allocation holds, of those that its
    /// threads may have accessed: the one that is nearest to an allocation. (What runs
    /// far past the end of a buffer comes near the next one, too.)
    fn with_address(&self, mut kernel: FailedKernel) -> FailedKernel {
        if let Some(name) = original_name(&kernel.name) {
            kernel.name = name.to_owned();
        }
        let nearest = self.memory.read(|registry| {
            let address = |thread: &FailedThread| DeviceAddress(thread.address);
            let is_wrong = |thread: &&FailedThread| {
                is_placed(thread.address) && registry.holding(address(thread)).is_none()
            };
            let wrong = kernel.threads.iter().filter(is_wrong);
            wrong
                .min_by_key(|thread| findings::distance_to_placed(address(thread), registry))
                .copied()
        });
        if let Some(thread) = nearest {
            kernel.address = thread.address;
            kernel.stopped.thread = thread.thread;
        }
        kernel
    }

    /// Kernels that never ran to their end were neither checked nor proved.
    fn count_not_run(&self, known: Option<&DeviceFailure>, outstanding: &[RecentLaunch]) {
        let not_finished = |function: &Arc<Function>, counted: Counted| {
            function.counts.take_back(counted);
            function.counts.unchecked(UncheckedReason::Unfinished);
        };
        // The CPU device reports which others did not run.
        let reports = self.env.driver().kind() == DeviceKind::Cpu;
        if !reports || known.is_none_or(|known| known.kernel.is_none()) {
            for recent in outstanding {
                if let (Some(Kernel(function)), Some(counted)) =
                    (self.modules.kernel(recent.function), recent.counted)
                {
                    not_finished(&function, counted);
                }
            }
            return;
        }
        self.count_reported(outstanding);
    }

    /// Counts what the device reports of kernels of a context that did not run
    /// to their end.
    pub(crate) fn count_told(&self, context: u64) {
        self.count_reported(&self.launches.recent().outstanding(context));
    }

    fn count_reported(&self, outstanding: &[RecentLaunch]) {
        let mut left: Vec<&RecentLaunch> = outstanding.iter().collect();
        for handle in self.env.driver().take_not_run() {
            let Some(original) = self.modules.program_handle(handle) else {
                continue;
            };
            let Some(Kernel(function)) = self.modules.kernel(original) else {
                continue;
            };
            let place = left.iter().rposition(|recent| recent.function == original);
            let counted = match place.map(|place| left.remove(place).counted) {
                Some(Some(counted)) => counted,
                _ if function.copies.residual == Some(handle) => Counted::Residual,
                _ if handle != original => Counted::Checked,
                _ => Counted::Proved,
            };
            function.counts.take_back(counted);
            function.counts.unchecked(UncheckedReason::Unfinished);
        }
    }
}
