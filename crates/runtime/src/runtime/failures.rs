//! A kernel failed on the device: every call in its context returns the error
//! from then on, and what was put into its streams never runs.

use super::Runtime;
use crate::drain::Mode;
use crate::findings::Key;
use crate::functions::{Counted, Function};
use crate::kernel::Kernel;
use crate::recent::RecentLaunch;
use crate::streams::StreamName;
use driver::sys::CUresult;
use driver::{DeviceFailure, kernel_error};
use host::stacks;
use model::{DeviceAddress, Failure, Finding, Rule, RunningKernel, Subject, UncheckedReason};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kernels of graphs that are remembered.
const GRAPH_KERNELS: usize = 32;

/// Failures of the process.
#[derive(Default)]
pub(crate) struct Failures {
    /// Contexts in which nothing works any more.
    contexts: Mutex<FxHashSet<u64>>,
    /// What the device reported of the newest.
    newest: Mutex<Option<DeviceFailure>>,
    /// Failures so far.
    number: AtomicU64,
    /// Kernels that became nodes of graphs, by the program's handles.
    in_graphs: Mutex<Vec<u64>>,
    /// Allocations that a failure kept from being freed.
    pub held: AtomicU64,
}

impl Failures {
    /// Whether a kernel has failed in this context.
    pub fn stands(&self, context: u64) -> bool {
        self.contexts.lock().contains(&context)
    }

    /// Whether a kernel has failed in any context that is still there.
    pub fn any_stands(&self) -> bool {
        !self.contexts.lock().is_empty()
    }

    /// The context is gone, and its failure with it.
    pub fn context_gone(&self, context: u64) {
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
}

impl Runtime {
    /// A call of the program, or of Ringfence for it, has returned this error.
    /// The first one in a context that says that a kernel failed is reported.
    pub fn kernel_failed(&self, error: CUresult, call: &str) {
        if kernel_error(error).is_none() || !self.output.is_ours() {
            return;
        }
        let context = self.driver.current_context();
        if self.failures.stands(context) {
            return;
        }
        let known = self.driver.failure();
        let outstanding = self.launches.recent().outstanding(context);
        let is_busy = !outstanding.is_empty();
        if !self.failures.is_new(context, known.as_ref(), is_busy) {
            return;
        }
        self.count_not_run(known.as_ref(), &outstanding);
        if let Some(known) = known.as_ref().filter(|known| known.device_lacks) {
            return self.output.error(&known.detail, true);
        }
        if !self.settings.check {
            return;
        }
        // What kernels recorded before that comes first: it may say why.
        self.run_drain(Mode::Wait);
        // The trap is Ringfence's own, and the finding says why.
        let is_ours = self.settings.trap && error == CUresult::CUDA_ERROR_LAUNCH_FAILED;
        if is_ours && !self.findings.occurrences().is_empty() {
            return;
        }
        let finding = self.failure(error, known, &outstanding, call);
        let number = self.failures.number.fetch_add(1, Ordering::Relaxed);
        if let Some(id) = self.findings.count(Key::Failure(number)) {
            self.publish(id, &finding);
        }
    }

    /// The program ends: a failure that no call of it has returned is reported.
    pub(crate) fn look_for_failure(&self) {
        if self.failures.any_stands() {
            return;
        }
        if let Some(known) = self.driver.failure() {
            if known.device_lacks {
                return self.output.error(&known.detail, true);
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
        let callers = self.settings.num_callers_host;
        let kernel = known.and_then(|known| known.kernel);
        let mut kernels: Vec<RunningKernel> = Vec::new();
        let mut launch = 0;
        if let Some(kernel) = &kernel {
            let original = self.modules.program_handle(kernel.function);
            let of_it = |recent: &&RecentLaunch| Some(recent.function) == original;
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
            let in_graphs = self.failures.in_graphs.lock().clone();
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
        Finding {
            rule: Rule::KernelFailed,
            address: DeviceAddress(kernel.as_ref().map_or(0, |kernel| kernel.address)),
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
            intended: None,
            nearest: None,
            occurrences: 1,
        }
    }

    /// Kernels that never ran to their end were neither checked nor proved.
    fn count_not_run(&self, known: Option<&DeviceFailure>, outstanding: &[RecentLaunch]) {
        let not_finished = |function: &Arc<Function>, counted: Counted| {
            function.counts.take_back(counted);
            function.counts.unchecked(UncheckedReason::Unfinished);
        };
        // A device that names the kernel also reports which others did not run.
        if known.is_none_or(|known| known.kernel.is_none()) {
            for recent in outstanding {
                if let (Some(Kernel(function)), Some(counted)) =
                    (self.modules.kernel(recent.function), recent.counted)
                {
                    not_finished(&function, counted);
                }
            }
            return;
        }
        self.count_told(outstanding);
    }

    /// Counts what the device reports of kernels that did not run to their end.
    pub(crate) fn count_told(&self, outstanding: &[RecentLaunch]) {
        let mut left: Vec<&RecentLaunch> = outstanding.iter().collect();
        for handle in self.driver.take_not_run() {
            let Some(original) = self.modules.program_handle(handle) else {
                continue;
            };
            let Some(Kernel(function)) = self.modules.kernel(original) else {
                continue;
            };
            let place = left.iter().rposition(|recent| recent.function == original);
            let counted = match place.map(|place| left.remove(place).counted) {
                Some(Some(counted)) => counted,
                _ if handle != original => Counted::Checked,
                _ => Counted::Proved,
            };
            function.counts.take_back(counted);
            function.counts.unchecked(UncheckedReason::Unfinished);
        }
    }

    /// A kernel was launched in this stream. `launch` is its ordinal, or 0.
    pub(crate) fn launch_made(
        &self,
        function: u64,
        counted: Counted,
        stream: StreamName,
        launch: u64,
    ) {
        self.launches.recent().add(RecentLaunch {
            function,
            context: stream
                .context()
                .unwrap_or_else(|| self.driver.current_context()),
            stream,
            launch,
            counted: Some(counted),
        });
    }

    /// A kernel became a node of a graph.
    pub(crate) fn graph_kernel(&self, function: u64) {
        let mut known = self.failures.in_graphs.lock();
        if known.len() < GRAPH_KERNELS && !known.contains(&function) {
            known.push(function);
        }
    }

    /// A graph was launched.
    pub fn graph_made(&self, stream: StreamName) {
        self.launches.recent().add(RecentLaunch {
            function: 0,
            context: stream
                .context()
                .unwrap_or_else(|| self.driver.current_context()),
            stream,
            launch: 0,
            counted: None,
        });
    }

    /// The device refused a launch: nothing ran, so nothing was checked.
    pub(crate) fn launch_refused(&self, function: u64, counted: Counted) {
        let Some(Kernel(function)) = self.modules.kernel(function) else {
            return;
        };
        match counted {
            Counted::Checked | Counted::Proved => function.counts.take_back(counted),
            // That it could not have been checked stays to be said.
            Counted::Unchecked(_) => {}
            Counted::Verified(reason) => {
                function.counts.take_back(counted);
                function.counts.unchecked(reason);
            }
        }
    }
}
