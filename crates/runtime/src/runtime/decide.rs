//! How a kernel is launched: as it is, or as its checked copy, with the bounds
//! of its pointers.

use super::Runtime;
use super::allocations::{is_seen_by_the_host, is_user_address};
use crate::canaries::{LaunchTrace, Where};
use crate::functions::{Counted, Function};
use crate::kernel::Kernel;
use crate::launches::{Launch, LaunchDecision, LaunchParameter, Root, Roots};
use crate::plan::ModulePlan;
use crate::seen::{Arguments, Recognised};
use crate::streams::{self, StreamUse, UseOrder, User};
use crate::ticket::LaunchRequest;
use instrument::{EntryPlan, LaunchShape, Program};
use model::layout::UNBOUNDED;
use model::{DeviceAddress, Extent, Prove, Rule, UncheckedReason};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How far from an allocation a pointer argument may lie that is still meant
/// for it, where no canary says so: the distance that the default canaries
/// give.
const JUST_OUTSIDE: u64 = 4096;

impl Runtime {
    /// Decides how a kernel is launched, and counts it. What comes with the
    /// decision is for [`Runtime::launched`].
    pub(crate) fn plan_launch(
        &self,
        request: &LaunchRequest<'_>,
    ) -> (LaunchDecision, Option<LaunchTrace>, Counted) {
        if self.exiting.load(Ordering::Relaxed) {
            // It may free what was live before.
            *self.heap_at_exit.lock() = None;
        }
        let Some(Kernel(function)) = &request.kernel else {
            self.before_unchecked();
            let counted = Counted::Unchecked(UncheckedReason::LaunchPath);
            self.modules.count_unknown(UncheckedReason::LaunchPath);
            self.streams.tell(streams::Ordering::Everything);
            return (LaunchDecision::Original, self.trace(None), counted);
        };
        if !self.settings.protect.bounds {
            self.before_unchecked();
            let (trace, counted) = self.plan_canaries(function);
            let decision = self.plan_heap(function, request.shape);
            return (decision.unwrap_or(LaunchDecision::Original), trace, counted);
        }
        match self.decide(function, request) {
            Ok((decision, counted)) => {
                if !function.is_covered() {
                    self.before_unchecked();
                }
                (decision, None, counted)
            }
            Err(reason) => {
                self.before_unchecked();
                function.counts.unchecked(reason);
                // It may do anything, such as telling the host of its progress.
                self.streams.tell(streams::Ordering::Everything);
                let trace = match reason {
                    UncheckedReason::Excluded => None,
                    _ => self.trace(Some(function)),
                };
                let counted = if trace.is_some() {
                    function.counts.verified();
                    Counted::Verified(reason)
                } else {
                    Counted::Unchecked(reason)
                };
                (LaunchDecision::Original, trace, counted)
            }
        }
    }

    /// Of a launch that may write to any buffer, if canaries are verified.
    fn trace(&self, function: Option<&Arc<Function>>) -> Option<LaunchTrace> {
        self.checks_canaries().then(|| LaunchTrace {
            function: function.cloned(),
            by_arguments: false,
        })
    }

    /// Without bounds, canaries are what there is.
    fn plan_canaries(&self, function: &Arc<Function>) -> (Option<LaunchTrace>, Counted) {
        if !self.settings.check || function.excluded || !self.window.admits() {
            function.counts.unchecked(UncheckedReason::Excluded);
            return (None, Counted::Unchecked(UncheckedReason::Excluded));
        }
        function.counts.checked();
        let trace = self.trace(Some(function)).map(|trace| LaunchTrace {
            by_arguments: true,
            ..trace
        });
        (trace, Counted::Checked)
    }

    fn decide(
        &self,
        function: &Arc<Function>,
        request: &LaunchRequest<'_>,
    ) -> Result<(LaunchDecision, Counted), UncheckedReason> {
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
            let sites = &entry.coverage;
            let in_functions =
                sites.exact_sites + sites.weak_sites + sites.calls_without_bounds > 0;
            if plan.instruments_functions() && in_functions {
                function.counts.checked();
                self.watcher.launched(&self.me);
                return Ok((LaunchDecision::InPlace, Counted::Checked));
            }
            if !sites.unchecked_sites.is_empty() {
                return Err(UncheckedReason::NoCheckedSite);
            }
            // Nothing in it can go wrong.
            function.counts.proved();
            return Ok((LaunchDecision::Proved, Counted::Proved));
        }
        let checked = function.checked.ok_or(UncheckedReason::Rejected)?;
        let program = entry.proof.as_ref().ok();
        let program = program.filter(|_| self.settings.prove != Prove::Off);
        let arguments =
            Arguments::read(entry, program, request).ok_or(UncheckedReason::LaunchPath)?;
        let recognised = self.recognise(function, program, &arguments);
        let comes_again = matches!(recognised, Some((_, Recognised::Proved)));
        let is_elided = self.settings.prove == Prove::On;
        if comes_again && is_elided {
            function.counts.proved();
            return Ok((LaunchDecision::Proved, Counted::Proved));
        }
        let (roots, are_known) = self.roots(function, entry, &arguments, request.stream);
        let asked = program.zip(arguments.inputs());
        // What verifies proofs needs them all, and verifies what was recognised.
        let answers = &function.answers;
        let proved = comes_again
            || asked.is_some_and(|(program, inputs)| {
                answers.proves(program, request.shape, &roots, inputs, !is_elided)
            });
        if proved
            && are_known
            && let Some((generation, Recognised::New { is_kept: true })) = recognised
            && let Some((program, inputs)) = asked
            && let Some(holds) = answers.holds(program, request.shape, &roots, inputs)
        {
            function.seen.keep(generation, &arguments, &holds);
        }
        if proved && is_elided {
            function.counts.proved();
            return Ok((LaunchDecision::Proved, Counted::Proved));
        }
        self.make_ready(plan)?;
        let decision = self.copy_of(function, request.shape, checked, roots, proved)?;
        function.counts.checked();
        Ok((decision, Counted::Checked))
    }

    /// What is known of a launch from those before it, and the generation of the
    /// allocations, which is read before any is looked up: what changes meanwhile
    /// makes it differ. `None` while streams are distinguished, where not all
    /// launches may use the same memory, and where nothing is proved.
    fn recognise(
        &self,
        function: &Function,
        program: Option<&Program>,
        arguments: &Arguments,
    ) -> Option<(u64, Recognised)> {
        program.filter(|_| !self.streams.are_tracked())?;
        let generation = self.memory.generation();
        Some((generation, function.seen.recognise(generation, arguments)))
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
        let id = self.launches.next();
        let launch_parameter = match entry.launch_parameter {
            Some(_) => launch_parameter(id, &roots),
            None => LaunchParameter::new(),
        };
        let stack = self.launches.capture_stack(&function.stacks);
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
        if plan.stack_is_unknown()
            && let Err(error) = self.deep_stacks.make_room(&*self.driver)
        {
            let message = format!(
                "there is no room for deeper stacks ({error}): recursive kernels may fail where they would not without checks"
            );
            self.output.error(&message, false);
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

    /// The pointer parameters and what they point into, and whether those that
    /// point into memory all point into allocations that are known.
    fn roots(
        &self,
        function: &Arc<Function>,
        entry: &EntryPlan,
        arguments: &Arguments,
        stream: Option<StreamUse>,
    ) -> (Roots, bool) {
        let mut roots: Roots = Roots::with_capacity(entry.roots.len());
        let nothing = Extent {
            base: DeviceAddress(0),
            size: 0,
        };
        for (offset, pointer) in entry.roots.iter().zip(arguments.pointers()) {
            roots.push(Root {
                offset: *offset,
                pointer: *pointer,
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
                    let known = self.ask_driver(pointer);
                    known.or_else(|| self.outside(pointer))
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
        (roots, !unknown)
    }

    /// What a pointer is meant for that lies in no allocation. An array that the
    /// kernel indexes from 1 comes as `p - 1`: its accesses are checked against
    /// the allocation beside it; pointers that kernels load from memory get no
    /// such grace. Memory of the host that the device may access as it is has no
    /// bounds that Ringfence knows.
    fn outside(&self, pointer: DeviceAddress) -> Option<Extent> {
        let nobodys = self.memory.is_held(pointer)
            || self.memory.reservation_of(pointer).is_some()
            || self.pool_of(pointer).is_some();
        let within = |near| {
            self.memory.read(|registry| {
                let entry = registry.just_outside(pointer, near)?;
                Some(entry.allocation.extent)
            })
        };
        // In a canary or padding, of which the neighbour may be the nearer one.
        if within(0).is_some() {
            return within(JUST_OUTSIDE);
        }
        if nobodys {
            return None;
        }
        if self.host_memory.holds(&*self.driver, pointer) {
            return Some(Extent {
                base: DeviceAddress(0),
                size: UNBOUNDED,
            });
        }
        within(JUST_OUTSIDE)
    }

    /// A kernel was launched by a call that no [`Ticket`](crate::Ticket) is for.
    pub fn unhooked_launch(&self, function: u64, reason: UncheckedReason) {
        self.before_unchecked();
        let Some(Kernel(function)) = self.modules.kernel(function) else {
            if let Some(trace) = self.trace(None) {
                self.launched(trace, 0, Where::Unknown, &|_, _| None);
            }
            return self.modules.count_unknown(reason);
        };
        function.counts.unchecked(reason);
        if let Some(trace) = self.trace(Some(&function)) {
            function.counts.verified();
            self.launched(trace, 0, Where::Unknown, &|_, _| None);
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

    /// Counts a launch whose checked copy the driver refused, after the
    /// program's kernel was launched instead. What this returns is for
    /// [`Runtime::launched`].
    pub(crate) fn count_fallback(
        &self,
        function: u64,
        reason: UncheckedReason,
    ) -> (Option<LaunchTrace>, Counted) {
        let Some(Kernel(function)) = self.modules.kernel(function) else {
            return (None, Counted::Unchecked(reason));
        };
        function.counts.take_back(Counted::Checked);
        function.counts.unchecked(reason);
        let Some(trace) = self.trace(Some(&function)) else {
            return (None, Counted::Unchecked(reason));
        };
        function.counts.verified();
        (Some(trace), Counted::Verified(reason))
    }

    /// The program is about to launch a graph, whose kernels may look pointers
    /// up, and find what the program allocates while they run.
    pub fn graph_launching(&self) {
        self.before_unchecked();
        if self.looks_up.load(Ordering::Relaxed) {
            self.lookups_outstanding.store(true, Ordering::Relaxed);
            self.flush_tables();
        }
    }
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
