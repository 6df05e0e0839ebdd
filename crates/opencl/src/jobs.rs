//! Jobs: all looks after one launch, from the commands that make them to what
//! they show.

use crate::buffers::Place;
use crate::chain::{Chain, is_failure_of_the_program, let_go};
use crate::check::{Damaged, Doer, Held, Look};
use crate::contexts::Context;
use crate::events::{self, status};
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::rounds::Round;
use crate::staged::Use;
use crate::sys::*;
use crate::table::call;
use crate::waits::wait_list;
use heap::choice::{self, Class};
use model::{Note, UncheckedReason};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// All looks after one launch.
pub struct Job {
    number: u64,
    context: Arc<Context>,
    doer: Doer,
    looks: Vec<Look>,
    /// What images were used that stand for buffers.
    uses: Vec<Use>,
    /// Looks of the device's checker; empty: the host looks.
    rounds: Vec<Round>,
    timing: Option<Timing>,
    /// The event of the kernel.
    done: Chain,
    /// What the kernel waits for, and all commands behind it.
    held: Vec<Arc<Chain>>,
}

/// A job between the last of its commands and its conclusion, for whoever
/// comes first: the platform, which calls back, or a thread of the program's
/// that waits and sees that all is done. Platforms take their time to call.
struct Slot {
    /// Of the last command, until the job is concluded: the platform need not
    /// call back for a command that failed (PoCL 3.1 does not).
    last: Mutex<Option<Arc<Chain>>>,
    job: Mutex<Option<Box<Job>>>,
}

/// Who concludes a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The platform, which calls back in the order of what ends.
    Platform,
    /// A thread that waited.
    Waiter,
}

impl Slot {
    fn conclude(&self, status: cl_int, by: By) {
        let last = self.last.lock().take();
        let job = self.job.lock().take();
        if let Some(job) = job {
            job.conclude(status, by, last);
        }
    }
}

/// What a look takes, from the end of the kernel on.
struct Timing {
    class: Class,
    checker: choice::Checker,
    /// Of the calls that enqueue it.
    enqueuing: Duration,
    enqueued: Instant,
    /// When the kernel ended, as the platform told.
    ended: Arc<OnceLock<Instant>>,
}

/// Commands behind a kernel.
pub struct Commands {
    pub queue: cl_command_queue,
    /// Whether each must say what it waits for.
    loose: bool,
    /// Of the kernel.
    done: cl_event,
    /// Of all commands so far.
    events: Chain,
    /// Of those among them that nothing waits for.
    ends: Vec<cl_event>,
}

impl Commands {
    /// Enqueues a command behind those of `before`, or else behind the kernel.
    /// `last`: nothing will wait for it but the end.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn add(
        &mut self,
        before: &[cl_event],
        last: bool,
        enqueue: impl FnOnce(&[cl_event], &mut Chain) -> cl_int,
    ) -> Result<cl_event, cl_int> {
        let done = [self.done];
        let after: &[cl_event] = match (self.loose, before) {
            (false, _) => &[],
            (true, []) => &done,
            (true, before) => before,
        };
        let code = enqueue(after, &mut self.events);
        match (code, self.events.last()) {
            (CL_SUCCESS, Some(event)) => {
                if last {
                    self.ends.push(event);
                }
                Ok(event)
            }
            (CL_SUCCESS, None) => Err(CL_INVALID_EVENT),
            (code, _) => Err(code),
        }
    }

    /// The event that is complete when all are, which must be released.
    fn end(&mut self) -> Result<cl_event, cl_int> {
        if self.loose && self.ends.len() > 1 {
            let (count, list) = wait_list(&self.ends);
            let mut marker = std::ptr::null_mut();
            let queue = self.queue;
            return match call!(clEnqueueMarkerWithWaitList(
                queue,
                count,
                list,
                &raw mut marker
            )) {
                CL_SUCCESS => Ok(marker),
                code => Err(code),
            };
        }
        let last = self.ends.last().copied().ok_or(CL_INVALID_VALUE)?;
        call!(clRetainEvent(last));
        Ok(last)
    }
}

impl Job {
    /// Enqueues the looks behind `done`, whose command waits for `before`. Returns the event that is complete
    /// when all were made, which must be released, and the job's number.
    pub fn start(
        layer: &Layer,
        queue: cl_command_queue,
        done: cl_event,
        doer: Doer,
        (looks, uses): (Vec<Look>, Vec<Use>),
        before: Vec<Arc<Chain>>,
    ) -> Result<(cl_event, u64), cl_int> {
        let context: Option<cl_context> = ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT));
        let context = layer.context(context.ok_or(CL_INVALID_COMMAND_QUEUE)?);
        let loose = layer.is_out_of_order(queue);
        let mut job = Box::new(Job {
            number: layer.jobs.begin(queue as usize, doer.kernel()),
            context,
            doer,
            looks,
            uses,
            rounds: Vec::new(),
            timing: None,
            done: Chain::default(),
            held: before,
        });
        call!(clRetainEvent(done));
        job.done.push(done);
        let commands = || Commands {
            queue,
            loose,
            done,
            events: Chain::default(),
            ends: Vec::new(),
        };
        let (last, begun) = match job.enqueue(layer, queue, done, &commands) {
            Ok(last) => last,
            Err((code, begun)) => {
                layer.jobs.end(job.number);
                if begun {
                    // Some reads may still be on their way into it.
                    Box::leak(job);
                }
                return Err(code);
            }
        };
        debug_assert!(begun);
        let number = job.number;
        call!(clRetainEvent(last));
        let mut own = Chain::default();
        own.push(last);
        let slot = Arc::new(Slot {
            last: Mutex::new(Some(Arc::new(own))),
            job: Mutex::new(Some(job)),
        });
        layer.jobs.offer(number, slot.clone());
        let data = Arc::into_raw(slot).cast_mut().cast::<c_void>();
        let complete = CL_COMPLETE.cast_signed();
        match call!(clSetEventCallback(last, complete, Some(looked), data)) {
            CL_SUCCESS => Ok((last, number)),
            code => {
                // It is never called: the bytes stay where they are, because
                // reads are on their way into them.
                layer.jobs.end(number);
                let_go(last);
                Err(code)
            }
        }
    }

    /// Enqueues the looks of whoever is to make them, and returns the event of
    /// the last command, and that there are commands.
    ///
    /// # Errors
    ///
    /// The platform's code, and whether there are commands all the same.
    fn enqueue(
        &mut self,
        layer: &Layer,
        queue: cl_command_queue,
        done: cl_event,
        commands: &dyn Fn() -> Commands,
    ) -> Result<(cl_event, bool), (cl_int, bool)> {
        let begun = Instant::now();
        let bytes = self.looks.iter().filter_map(Look::held);
        let bytes: u64 = bytes.map(|held| held.canary_bytes() as u64).sum();
        let images = self
            .looks
            .iter()
            .any(|look| matches!(look.held(), Some(Held::Image(_))));
        let class = Class::of(images, self.looks.len() as u64, bytes);
        let full = layer.jobs.is_full(bytes);
        let (checker, timed) = match self.looks.is_empty() {
            true => (None, false),
            false => self.context.choose(layer, class, full),
        };
        if full && checker.is_none() {
            call!(clFlush(queue));
            layer.jobs.make_room();
        }
        let mut last = None;
        if let Some(checker) = &checker {
            let mut commands = commands();
            let enqueued =
                Round::enqueue_all(checker, &self.looks, &mut commands, &mut self.rounds)
                    .and_then(|()| staged(&self.uses, &mut commands))
                    .and_then(|()| commands.end());
            self.held.push(Arc::new(commands.events));
            match enqueued {
                Ok(event) => last = Some(event),
                Err(_) => {
                    // Answers may be on their way; the host looks instead, and
                    // from now on.
                    std::mem::forget(std::mem::take(&mut self.rounds));
                    self.context.lose_checker(&layer.reporter);
                }
            }
        }
        let by_device = last.is_some();
        let last = match last {
            Some(last) => last,
            None => {
                layer.jobs.hold(self.number, bytes);
                let mut commands = commands();
                let enqueued = host(&mut self.looks, &mut commands)
                    .and_then(|()| staged(&self.uses, &mut commands))
                    .and_then(|()| commands.end());
                let begun = commands.events.last().is_some();
                self.held.push(Arc::new(commands.events));
                enqueued.map_err(|code| (code, begun))?
            }
        };
        let enqueuing = begun.elapsed();
        if !by_device {
            self.context.spend(enqueuing);
        }
        if timed && by_device == checker.is_some() {
            self.timing = Some(Timing {
                class,
                checker: match by_device {
                    true => choice::Checker::Device,
                    false => choice::Checker::Host,
                },
                enqueuing,
                enqueued: Instant::now(),
                ended: ending(done),
            });
        }
        Ok((last, true))
    }

    /// What became of its commands, of which the last ended with this status.
    ///
    /// Each is asked for: where an event fails that the kernel waits for, a
    /// platform may leave out what comes behind the kernel, and call back as if
    /// it had been done (NVIDIA's, driver 580).
    fn outcome(&self, status: cl_int) -> Outcome {
        let all = self.held.iter().map(Arc::as_ref).chain([&self.done]);
        let mut failed = status < 0;
        let mut underway = false;
        for event in all.flat_map(Chain::events) {
            match events::status(event) {
                Some(status) if status > CL_COMPLETE.cast_signed() => underway = true,
                Some(status) => failed |= status < 0,
                None => failed = true,
            }
        }
        match (failed, underway) {
            (true, true) => Outcome::Underway,
            (true, false) => Outcome::Failed,
            (false, _) => Outcome::Complete,
        }
    }

    fn conclude(mut self, status: cl_int, by: By, last: Option<Arc<Chain>>) {
        let now = Instant::now();
        let Some(layer) = layer::get() else { return };
        let kernel = self.doer.kernel();
        let outcome = self.outcome(status);
        if outcome != Outcome::Complete {
            let done = self.done.last().and_then(events::status);
            if let Some(kernel) = kernel.filter(|_| !done.is_some_and(never_ran)) {
                let reason = UncheckedReason::Unfinished;
                layer.reporter.unchecked(kernel, reason);
            }
        } else {
            if let Some(kernel) = kernel {
                layer.reporter.checked(kernel);
                if !self.looks.is_empty() {
                    layer.reporter.note(if self.rounds.is_empty() {
                        Note::CanariesByHost
                    } else {
                        Note::CanariesByDevice
                    });
                }
            }
            let found = |look: &Look, damages: Vec<Damaged>| {
                for damage in damages {
                    layer.reporter.damage(layer, &self.doer, look, &damage);
                }
            };
            if self.rounds.is_empty() {
                for look in &self.looks {
                    found(look, look.damages());
                }
            }
            for round in &self.rounds {
                round.damages(&self.looks, &found);
            }
            if let Some(timing) = &self.timing {
                timing.tell(&self.context, now, by);
            }
        }
        // What failed with the kernel has written no canaries.
        let complete = outcome == Outcome::Complete;
        for look in self.looks.iter().filter(|_| complete) {
            if let Place::Block(block) = &look.buffer.place {
                block.written.settle();
            }
        }
        if outcome == Outcome::Underway {
            // Reads may be on their way into what it holds.
            std::mem::forget(std::mem::take(&mut self.looks));
            std::mem::forget(std::mem::take(&mut self.rounds));
            std::mem::forget(std::mem::take(&mut self.held));
        }
        for round in self.rounds.drain(..) {
            round.end();
        }
        // Before whoever waits for the job asks for references.
        self.held.clear();
        drop(std::mem::take(&mut self.done));
        drop(last);
        layer.jobs.end(self.number);
    }
}

/// What became of a job's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All were done.
    Complete,
    /// One failed, the kernel or what makes the looks: they show nothing.
    Failed,
    /// One failed, and others have not ended.
    Underway,
}

/// Whether a kernel with this status was never run, because what it waited for
/// had failed: the code that OpenCL has for it, PoCL's own, and those that the
/// program gave to events.
fn never_ran(status: cl_int) -> bool {
    const FAILED_BY_POCL: cl_int = -1;
    [CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, FAILED_BY_POCL].contains(&status)
        || is_failure_of_the_program(status)
}

/// Looks by the host: reads the canaries, and writes them again.
fn host(looks: &mut [Look], commands: &mut Commands) -> Result<(), cl_int> {
    let queue = commands.queue;
    for look in looks {
        if look.held().is_none() {
            continue;
        }
        look.make_room();
        let read = commands.add(&[], false, |after, events| look.read(queue, after, events))?;
        bring_back(look, commands)?;
        commands.add(&[read], true, |after, events| {
            look.restore(queue, after, events)
        })?;
    }
    Ok(())
}

/// What was written into images that stand for buffers goes where it belongs.
fn staged(uses: &[Use], commands: &mut Commands) -> Result<(), cl_int> {
    let queue = commands.queue;
    for one in uses.iter().filter(|one| one.writes) {
        commands.add(&[], true, |after, events| {
            one.bring_back(queue, after, events)
        })?;
    }
    Ok(())
}

/// What a kernel has written into a copy goes where it belongs.
pub fn bring_back(look: &Look, commands: &mut Commands) -> Result<(), cl_int> {
    let queue = commands.queue;
    if let Some(shadow) = look.shadow() {
        commands.add(&[], true, |after, events| {
            shadow.bring_back(queue, &look.buffer, after, events)
        })?;
    }
    Ok(())
}

impl Timing {
    fn tell(&self, context: &Context, now: Instant, by: By) {
        // Who waited may know of the look's end before the platform has told
        // that of the kernel: his times hold the kernel's own, for either
        // checker.
        let from = match (by, self.ended.get()) {
            (By::Platform, Some(ended)) => (*ended).max(self.enqueued),
            (By::Platform, None) => return,
            (By::Waiter, _) => self.enqueued,
        };
        let taken = self.enqueuing + now.saturating_duration_since(from);
        context.told(self.class, self.checker, taken);
    }
}

/// When the command of an event ends.
fn ending(event: cl_event) -> Arc<OnceLock<Instant>> {
    let ended = Arc::new(OnceLock::new());
    let data = Arc::into_raw(ended.clone()).cast_mut().cast::<c_void>();
    let complete = CL_COMPLETE.cast_signed();
    if call!(clSetEventCallback(event, complete, Some(stamp), data)) != CL_SUCCESS {
        // SAFETY: the platform did not take it.
        drop(unsafe { Arc::from_raw(data.cast::<OnceLock<Instant>>()) });
    }
    ended
}

unsafe extern "C" fn stamp(_event: cl_event, _status: cl_int, data: *mut c_void) {
    // SAFETY: what was given with this function, which is called once.
    let ended = unsafe { Arc::from_raw(data.cast::<OnceLock<Instant>>()) };
    let _ = ended.set(Instant::now());
}

/// Called by the platform, on a thread of its own: no call of OpenCL here but
/// queries and releases.
unsafe extern "C" fn looked(_event: cl_event, status: cl_int, data: *mut c_void) {
    // SAFETY: what was given with this function, which is called once.
    let slot = unsafe { Arc::from_raw(data.cast::<Slot>()) };
    slot.conclude(status, By::Platform);
}

/// Jobs that are under way.
#[derive(Default)]
pub struct Jobs {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    /// By number.
    pending: BTreeMap<u64, Pending>,
    /// Bytes that they hold on the host.
    held: u64,
}

/// A job that is under way.
struct Pending {
    queue: usize,
    /// Name of the kernel, if it is about one.
    kernel: Option<String>,
    /// Bytes that it holds on the host.
    held: u64,
    /// The job, if it may be concluded by whoever waits for it.
    slot: Option<Arc<Slot>>,
}

/// Bytes that jobs may hold on the host: a program may enqueue thousands of
/// launches before it waits for any.
const MOST_HELD: u64 = 256 << 20;

/// How long a launch may be held up for memory. What the jobs wait for may be
/// the program's own next step.
const FOR_ROOM: Duration = Duration::from_secs(1);

/// How long a platform may take to call back after it said that all is done.
pub const PATIENCE: Duration = Duration::from_secs(10);

impl Jobs {
    fn begin(&self, queue: usize, kernel: Option<&str>) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        let pending = Pending {
            queue,
            kernel: kernel.map(str::to_owned),
            held: 0,
            slot: None,
        };
        state.pending.insert(number, pending);
        number
    }

    fn end(&self, number: u64) {
        let mut state = self.state.lock();
        let pending = state.pending.remove(&number);
        if let Some(pending) = &pending {
            state.held -= pending.held;
        }
        drop(state);
        // Its event is released without the lock.
        drop(pending);
        self.ended.notify_all();
    }

    /// Offers a job to whoever waits for it.
    fn offer(&self, number: u64, slot: Arc<Slot>) {
        if let Some(pending) = self.state.lock().pending.get_mut(&number) {
            pending.slot = Some(slot);
        }
    }

    /// Concludes jobs whose commands are complete, instead of waiting for the
    /// platform to say so.
    fn conclude(&self, which: &impl Fn(u64, usize) -> bool) {
        let slots: Vec<Arc<Slot>> = {
            let state = self.state.lock();
            let meant = state
                .pending
                .iter()
                .filter(|(number, pending)| which(**number, pending.queue));
            meant
                .filter_map(|(_, pending)| pending.slot.clone())
                .collect()
        };
        for slot in slots {
            let last = slot.last.lock().clone();
            let status = last.as_ref().and_then(|last| status(last.last()?));
            if let Some(status) = status.filter(|status| *status <= CL_COMPLETE.cast_signed()) {
                slot.conclude(status, By::Waiter);
            }
        }
    }

    /// Counts what a job holds on the host.
    fn hold(&self, number: u64, bytes: u64) {
        let mut state = self.state.lock();
        if let Some(pending) = state.pending.get_mut(&number) {
            pending.held += bytes;
            state.held += bytes;
        }
    }

    /// Whether so many more bytes would be too many.
    fn is_full(&self, more: u64) -> bool {
        self.state.lock().held.saturating_add(more) > MOST_HELD
    }

    /// Waits until half of what jobs may hold is free, for a while: no look is
    /// left out for want of memory.
    fn make_room(&self) {
        let deadline = Instant::now() + FOR_ROOM;
        let mut state = self.state.lock();
        while state.held > MOST_HELD / 2 {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    /// Waits until what was begun so far and is meant by `which` has ended.
    pub fn wait(&self, patience: Duration, which: impl Fn(u64, usize) -> bool) {
        self.conclude(&which);
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        let last = state.last;
        let open = |state: &State| {
            let mut so_far = state.pending.range(..=last);
            so_far.any(|(number, pending)| which(*number, pending.queue))
        };
        while open(&state) {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    /// The kernel of each look that has not ended.
    pub fn unfinished(&self) -> Vec<String> {
        let state = self.state.lock();
        let names = state.pending.values();
        let names = names.filter_map(|pending| pending.kernel.clone());
        names.collect()
    }
}
