//! The guard: a kernel of one warp that stays on the device beside the
//! program's kernels and verifies canaries while they run (`device/guard.cu`,
//! after GMOD).
//!
//! It must never change what the program observes. Some calls of the driver
//! wait until nothing runs in the context any more, and a guard that stays
//! would be waited for: the shim pauses it around them ([`Watching::pause`]),
//! and where the call would wait for the program's kernels anyway, these are
//! waited for first, under the guard's eyes. It comes back at the next launch,
//! or at once if kernels still run. Two nets lie under calls that nobody
//! thought of: each slice of the guard ends by itself, and a thread, the
//! *keeper*, which launches the next one, pauses the guard for a moment when
//! it sees a thread of the program stuck in a call.
//!
//! Who may do what: [`machine`] says when a slice may be launched and is the
//! only place that counts them; [`words`] says what follows from what the
//! guard writes; both are run through every interleaving by `model`.

mod calls;
mod found;
mod keeper;
mod machine;
#[cfg(test)]
mod model;
mod outstanding;
mod ring;
mod words;

use crate::runtime::Runtime;
use crate::streams::StreamName;
use crate::turn::Turn;
use ::model::layout::guard::{ENDED, GUARD_CONTROL, GUARD_CONTROL_SIZE, SLOTS};
use ::model::{DeviceAddress, DeviceKind, Settings};
use calls::{Calls, Inside, Stuck};
use driver::{DriverError, HostMapping, Mark, SupportKernel, SupportLaunch, SupportStream};
use host::stacks;
use keeper::Keeper;
use machine::{Machine, State};
use outstanding::{Outstanding, Run};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use words::Words;

/// The guard's text.
const GUARD: &str = include_str!("../device/guard.ptx");
/// Its kernel.
const KERNEL: &str = "__ringfence_guard";
/// Threads of the guard: one warp.
const WARP: u32 = 32;
/// Nanoseconds that the guard sleeps after a round on a GPU: a tenth of a
/// percent of overhead without any (measured on an H200), and a hundredth of a
/// millisecond until a write is found.
const PAUSE_GPU: u64 = 4_000;
/// The same on the CPU device, whose cores are the program's, too.
const PAUSE_CPU: u64 = 100_000;
/// Waiting for the guard spins for so many looks; then it sleeps in between.
const SPINS: u32 = 2_000;
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(50);
/// After so long without an answer the driver is asked whether the guard is
/// still there.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long a process that ends waits for the guard's last round.
const LAST_ROUND: Duration = Duration::from_millis(200);

/// Results that say that a kernel of the program has failed, or that the
/// program has ended CUDA, and not that the guard cannot be.
fn is_the_programs(error: &DriverError) -> bool {
    /// `CUDA_ERROR_DEINITIALIZED`, `CUDA_ERROR_ILLEGAL_ADDRESS`,
    /// `CUDA_ERROR_LAUNCH_TIMEOUT`, `CUDA_ERROR_ASSERT`, and those between
    /// `CUDA_ERROR_HARDWARE_STACK_ERROR` and `CUDA_ERROR_LAUNCH_FAILED`.
    const CODES: [u32; 10] = [4, 700, 702, 710, 714, 715, 716, 717, 718, 719];
    CODES.contains(&error.code)
}

/// What the guard needs and knows; see [`Watching`].
pub(crate) struct Watch {
    wanted: bool,
    slice: Duration,
    state: Mutex<Shared>,
    words: OnceLock<HostMapping>,
    /// Taken while the guard is set up in a context.
    setting_up: Turn,
    /// Slots of the table of canaries in use.
    slots: AtomicU64,
    /// Held while a stream of the program is named to the driver, so that it is
    /// not destroyed meanwhile.
    naming: Mutex<()>,
    keeper: Keeper,
    calls: Calls,
    draining: Turn,
    /// Findings taken out of the ring.
    drained: AtomicU64,
    launches: AtomicU64,
    /// Launches for which the guard stayed away.
    alone: AtomicU64,
    stacks: AtomicU32,
    /// Whether `Shared::aside` holds something.
    aside: AtomicBool,
    /// The words may have to be shown to the device again.
    doubtful: AtomicBool,
    /// Why it cannot be.
    off: OnceLock<String>,
}

/// What one lock protects. It is never held across a call of the driver.
#[derive(Default)]
struct Shared {
    machine: Machine,
    outstanding: Outstanding,
    /// The guard's kernel, by context.
    kernels: FxHashMap<u64, SupportKernel>,
    /// The program has launched, and no slice has begun since its kernels were
    /// over.
    launched: bool,
    /// Until then the newest slice does not end by itself.
    lasts: Option<Instant>,
    /// Calls for which the keeper pauses the guard.
    aside: Option<Stuck>,
    /// Places that must be over before the guard comes back: kernels that need
    /// the whole device.
    alone: Vec<(u64, Mark)>,
}

impl Watch {
    pub fn new(settings: &Settings) -> Watch {
        Watch {
            wanted: settings.protect.watch && settings.check,
            slice: settings.watch_slice,
            state: Mutex::default(),
            words: OnceLock::new(),
            setting_up: Turn::default(),
            slots: AtomicU64::new(0),
            naming: Mutex::new(()),
            keeper: Keeper::default(),
            calls: Calls::default(),
            draining: Turn::default(),
            drained: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            alone: AtomicU64::new(0),
            stacks: AtomicU32::new(0),
            aside: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            off: OnceLock::new(),
        }
    }

    /// What the guard says about its slices.
    fn ended(&self) -> u64 {
        self.words.get().map_or(0, |words| words.load(ENDED))
    }

    /// Tells the guard to end, as the machine says; the lock is held.
    fn stop(&self, slice: u64) {
        if let Some(words) = self.words.get() {
            words::stop(words, slice);
        }
    }
}

/// A launch of the program that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct WatchedLaunch {
    /// The stream.
    pub name: StreamName,
    /// The same, as the program names it.
    pub stream: SupportStream,
    /// The context of the stream.
    pub context: u64,
    /// Handle of the kernel; `None` for a graph.
    pub function: Option<u64>,
}

/// What a call that is about to be made waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For all kernels of the program, in any case: they are waited for first,
    /// while the guard still watches them.
    ForAll,
    /// For the device, if at all, only for a moment, or for what Ringfence
    /// cannot tell.
    Perhaps,
}

/// The guard, for the time of a call; from [`Runtime::watch`].
#[derive(Clone, Copy)]
pub struct Watching<'a> {
    runtime: &'a Runtime,
    watch: &'a Watch,
}

impl Runtime {
    /// The guard that watches kernels while they run.
    pub fn watch(&self) -> Watching<'_> {
        Watching {
            runtime: self,
            watch: &self.watch,
        }
    }
}

/// The guard stays away until this is dropped.
pub struct Paused<'a> {
    watching: Option<Watching<'a>>,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        if let Some(watching) = self.watching {
            watching.resume();
        }
    }
}

/// A thread is inside a call of the program's; see [`Watching::enter`].
pub struct Entered {
    _inside: Option<Inside>,
}

impl<'a> Watching<'a> {
    /// Whether the user asked for it.
    pub fn is_wanted(&self) -> bool {
        self.watch.wanted
    }

    /// Whether the user asked for it, and it cannot be: what it would have
    /// found must be looked for after launches.
    pub fn is_off(&self) -> bool {
        self.watch.wanted && self.watch.off.get().is_some()
    }

    /// Whether there is something for the guard to look at, and it can.
    fn is_needed(&self) -> bool {
        let something =
            self.watch.slots.load(Ordering::Acquire) != 0 || self.runtime.metadata.watches_heap();
        self.watch.wanted && something && self.watch.off.get().is_none()
    }

    /// So many slots of the table of canaries are in use, and their memory is
    /// there. Call it before records are written behind the old end.
    pub fn table_slots(&self, slots: u64) {
        self.watch.slots.store(slots, Ordering::Release);
        if let Some(words) = self.watch.words.get() {
            words.store(SLOTS, slots);
            return;
        }
        // The first buffer. The guard's first round is slow, because its code
        // is not in any cache: it had better be over when kernels come.
        if self.is_needed() {
            self.watch.state.lock().launched = true;
            self.start(self.runtime.driver.current_context());
        }
    }

    /// A thread of the program enters a call; it is inside until the answer is
    /// dropped.
    pub fn enter(&self) -> Entered {
        Entered {
            _inside: self.watch.wanted.then(|| self.watch.calls.enter()),
        }
    }

    /// The program is about to launch into a stream that is not being
    /// captured. The guard is there when this returns, or on its way: launched
    /// after a kernel that fills the device it would have to wait for it.
    pub fn launching(&self, launch: &WatchedLaunch) {
        if !self.is_needed() {
            return;
        }
        self.come_back();
        let ordinal = self.watch.launches.fetch_add(1, Ordering::Relaxed) + 1;
        let run = Run {
            ordinal,
            function: launch.function,
            stack: self.launch_stack(),
        };
        {
            let mut shared = self.watch.state.lock();
            shared
                .outstanding
                .add(launch.name, launch.stream, launch.context, run);
            shared.launched = true;
        }
        self.start(launch.context);
    }

    /// The launch was made, or has failed: whatever [`Watching::launching`] was
    /// called for. Streams that only this thread can name are marked.
    pub fn launched(&self, launch: &WatchedLaunch) {
        if !self.watch.wanted {
            return;
        }
        self.watch.state.lock().outstanding.launched(launch.name);
        let StreamName::PerThread { .. } = launch.name else {
            return;
        };
        if !self.is_needed() {
            return;
        }
        if let Ok(mark) = self.runtime.driver.mark(launch.stream) {
            let old = {
                let mut shared = self.watch.state.lock();
                shared.outstanding.set_mark(launch.name, mark)
            };
            self.forget(old);
        }
    }

    fn launch_stack(&self) -> host::Stack {
        let kept = self.runtime.settings.launch_backtraces;
        let wanted = self.watch.stacks.load(Ordering::Relaxed) < kept
            && self.watch.stacks.fetch_add(1, Ordering::Relaxed) < kept;
        if !wanted {
            return None;
        }
        stacks::capture(self.runtime.settings.num_callers_host)
    }

    fn forget(&self, marks: impl IntoIterator<Item = Mark>) {
        for mark in marks {
            self.runtime.driver.forget_mark(mark);
        }
    }

    /// Launches a slice in a context, if one is due.
    fn start(&self, context: u64) {
        if !self.is_needed() {
            return;
        }
        let state = {
            let mut shared = self.watch.state.lock();
            let state = shared.machine.state(self.watch.ended());
            if state == State::Running && shared.machine.context() != context {
                let slice = shared.machine.stop();
                self.watch.stop(slice);
                State::Pausing
            } else {
                state
            }
        };
        match state {
            State::Running | State::Restarting | State::GivenUp => return,
            State::Pausing => self.wait_if_elsewhere(context),
            State::Off | State::Paused => {}
        }
        let kernel = match self.kernel(context) {
            Ok(Some(kernel)) => kernel,
            Ok(None) => return,
            Err(error) => return self.give_up(&error),
        };
        let Some(slice) = self.begin_slice(context) else {
            return;
        };
        let parameters = self.parameters(slice, context);
        let launch = SupportLaunch {
            blocks: 1,
            threads: WARP,
            parameters: &parameters,
            stream: SupportStream::Guard,
            waits_itself: false,
        };
        let driver = &self.runtime.driver;
        let launched = driver.with_context(context, &mut || driver.launch_support(kernel, &launch));
        {
            let mut shared = self.watch.state.lock();
            shared.machine.slice_launched(launched.is_ok());
        }
        match launched {
            Ok(()) => self.watch.keeper.wake(&self.runtime.me()),
            Err(error) => self.give_up(&error),
        }
    }

    fn begin_slice(&self, context: u64) -> Option<u64> {
        let ended = self.watch.ended();
        let mut shared = self.watch.state.lock();
        let slice = shared.machine.begin_slice(context, ended)?;
        // It begins later than now.
        shared.lasts = Some(Instant::now() + self.watch.slice);
        Some(slice)
    }

    fn parameters(&self, slice: u64, context: u64) -> Vec<u8> {
        // `model::layout::guard::GuardParameters`
        let pause = match self.runtime.driver.kind() {
            DeviceKind::Gpu => PAUSE_GPU,
            DeviceKind::Cpu => PAUSE_CPU,
        };
        let nanoseconds = u64::try_from(self.watch.slice.as_nanos()).unwrap_or(u64::MAX);
        [slice, context, nanoseconds, pause]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// A slice that ends in another context could still run beside the next.
    fn wait_if_elsewhere(&self, context: u64) {
        let (elsewhere, slice) = {
            let shared = self.watch.state.lock();
            let machine = &shared.machine;
            (machine.context() != context, machine.launched())
        };
        if elsewhere {
            let deadline = Instant::now() + LAST_ROUND;
            self.wait_until(deadline, || self.watch.ended() >= slice);
        }
    }

    /// The guard's kernel in a context, loaded when it is first asked for.
    /// `None` in a call that the loading itself makes.
    fn kernel(&self, context: u64) -> Result<Option<SupportKernel>, DriverError> {
        let known = self.watch.state.lock().kernels.get(&context).copied();
        if known.is_some() && !self.watch.doubtful.load(Ordering::Acquire) {
            return Ok(known);
        }
        let Some(_turn) = self.watch.setting_up.take() else {
            return Ok(None);
        };
        let driver = &self.runtime.driver;
        let mut kernel = None;
        driver.with_context(context, &mut || {
            // The guard reads the control page, and its findings about the
            // device heap go through the common ring. Where they cannot be
            // mapped, launches say so; another thread may be mapping them.
            if self.runtime.metadata.attach(&**driver).is_err() {
                return Ok(());
            }
            match self.watch.words.get() {
                Some(words) => {
                    if self.watch.doubtful.swap(false, Ordering::AcqRel) {
                        driver.restore_host(*words)?;
                    }
                }
                None => {
                    let words =
                        driver.map_host_fixed(DeviceAddress(GUARD_CONTROL), GUARD_CONTROL_SIZE)?;
                    let words = self.watch.words.get_or_init(|| words);
                    words.store(SLOTS, self.watch.slots.load(Ordering::Acquire));
                }
            }
            let module = driver.load_support(GUARD)?;
            kernel = Some(driver.support_kernel(module, KERNEL)?);
            Ok(())
        })?;
        if let Some(kernel) = kernel {
            self.watch.state.lock().kernels.insert(context, kernel);
        }
        Ok(kernel)
    }

    /// The guard cannot run. What a kernel of the program broke the program is
    /// told by its own calls.
    fn give_up(&self, error: &DriverError) {
        self.watch.state.lock().machine.give_up();
        if is_the_programs(error) {
            return;
        }
        let message = format!(
            "the guard kernel cannot stay on the device: {error}. Kernels are not watched while they run; canaries \
             are looked at after launches instead"
        );
        self.runtime.output.error(&message, false);
        self.watch.off.get_or_init(|| message);
    }

    /// Around a call of the program's that may wait for the whole device.
    pub fn pause(self, waits: Waits) -> Paused<'a> {
        if !self.watch.wanted {
            return Paused { watching: None };
        }
        self.come_back();
        if waits == Waits::ForAll && self.is_at_work() {
            self.wait_for_streams();
        }
        self.see_the_end();
        let mut shared = self.watch.state.lock();
        let slice = shared.machine.pause();
        self.watch.stop(slice);
        Paused {
            watching: Some(self),
        }
    }

    /// A slice that is over, or may have begun its last round, has not seen how
    /// the kernels that ran beside it ended: another one is launched, whose only
    /// round may be its last.
    fn see_the_end(&self) {
        let is_late = |shared: &Shared| shared.lasts.is_some_and(|until| Instant::now() >= until);
        // It may be over before the driver's call that launches it is.
        let deadline = Instant::now() + LAST_ROUND;
        self.wait_until(deadline, || {
            let shared = self.watch.state.lock();
            shared.machine.state(self.watch.ended()) != State::Restarting || !is_late(&shared)
        });
        let (context, slice) = {
            let mut shared = self.watch.state.lock();
            let is_over = match shared.machine.state(self.watch.ended()) {
                State::Paused => true,
                State::Running => is_late(&shared),
                _ => false,
            };
            if !is_over || !shared.launched || shared.machine.is_held() {
                return;
            }
            (shared.machine.context(), shared.machine.stop())
        };
        self.watch.stop(slice);
        self.start(context);
    }

    /// The launch that was just made needs the whole device: the guard, which is
    /// paused, stays away until it is over. Then it looks at what the kernel
    /// left.
    pub fn stay_away(self, launch: &WatchedLaunch, paused: Paused<'_>) {
        if !self.is_needed() {
            return;
        }
        self.watch.alone.fetch_add(1, Ordering::Relaxed);
        // What cannot be marked is over in time, or ends with a slice.
        if let Ok(mark) = self.runtime.driver.mark(launch.stream) {
            self.watch.state.lock().alone.push((launch.context, mark));
            self.watch.keeper.wake(&self.runtime.me());
            // `resume` is the keeper's to call.
            std::mem::forget(paused);
        }
    }

    /// Launches for which the guard stayed away.
    pub(crate) fn not_watched(&self) -> u64 {
        self.watch.alone.load(Ordering::Relaxed)
    }

    /// Lets the guard come back from what was alone on the device and is over.
    fn end_of_being_alone(self) {
        let alone = std::mem::take(&mut self.watch.state.lock().alone);
        for (context, mark) in alone {
            let driver = &self.runtime.driver;
            let mut over = false;
            let asked = driver.with_context(context, &mut || {
                over = driver.is_over(mark)?;
                Ok(())
            });
            if over || asked.is_err() {
                driver.forget_mark(mark);
                self.resume();
            } else {
                self.watch.state.lock().alone.push((context, mark));
            }
        }
    }

    /// As [`Watching::pause`] with [`Waits::Perhaps`], before a context goes:
    /// no slice of the guard is being launched in it any more.
    pub fn pause_for_good(self, context: u64) -> Paused<'a> {
        let paused = self.pause(Waits::Perhaps);
        if !self.watch.wanted {
            return paused;
        }
        let deadline = Instant::now() + LAST_ROUND;
        self.wait_until(deadline, || {
            self.watch.state.lock().machine.state(0) != State::Restarting
        });
        self.forget_streams(|busy| busy.context == context);
        // Nothing is started where the context may be gone by then.
        self.watch.state.lock().launched = false;
        paused
    }

    /// The context is gone.
    pub fn context_gone(&self, context: u64) {
        if !self.watch.wanted {
            return;
        }
        let (ours, slice) = {
            let mut shared = self.watch.state.lock();
            shared.kernels.remove(&context);
            let ours = shared.machine.context_gone(context);
            (ours, shared.machine.launched())
        };
        self.watch.doubtful.store(true, Ordering::Release);
        if ours && let Some(words) = self.watch.words.get() {
            // Where a kernel of the program failed, the guard was killed, too.
            words.store(ENDED, slice);
        }
    }

    fn resume(self) {
        // What the guard saw in its last round is told before the call returns.
        self.drain();
        let ended = self.watch.ended();
        let is_free = {
            let mut shared = self.watch.state.lock();
            if shared.machine.state(ended) == State::Paused {
                shared.outstanding.forget_recent();
            }
            shared.machine.resume()
        };
        if is_free {
            self.start_for_what_runs();
        }
    }

    /// The guard comes back if kernels are running that it should watch, or the
    /// program has been launching: then it is there before the next kernel, and
    /// does not hold that up.
    fn start_for_what_runs(&self) {
        self.drop_idle_streams();
        let context = {
            let mut shared = self.watch.state.lock();
            let busy = shared.outstanding.context();
            let ahead = shared.launched && shared.machine.launched() != 0;
            // While kernels run, the end is still to be seen.
            shared.launched &= busy.is_some();
            busy.or_else(|| ahead.then(|| shared.machine.context()))
        };
        if let Some(context) = context {
            self.start(context);
        }
    }

    /// Whether kernels run that the guard watches, or will as soon as the keeper
    /// has started the next slice.
    fn is_at_work(&self) -> bool {
        let shared = self.watch.state.lock();
        let is_over = shared.machine.state(self.watch.ended()) == State::GivenUp;
        self.is_needed() && !is_over && !shared.machine.is_held() && !shared.outstanding.is_empty()
    }

    /// Waits for what the program has launched, as far as that is known, under
    /// the guard's eyes.
    fn wait_for_streams(self) {
        let streams = self.watch.state.lock().outstanding.streams();
        // Waiting for kernels is not being stuck.
        let _outside = self.watch.calls.leave();
        let mut marks = Vec::new();
        for busy in streams {
            if let Some(mark) = self.mark(&busy) {
                marks.push((busy.name, busy.last(), mark));
            }
        }
        for (name, last, mark) in marks {
            // A failure is the program's, and its own call will answer it.
            let _ = self.runtime.driver.wait_for_mark(mark);
            let old = {
                let mut shared = self.watch.state.lock();
                shared.outstanding.is_over(name, last)
            };
            self.forget(old);
        }
    }

    /// The place after the last launch of a stream.
    fn mark(&self, busy: &outstanding::Busy) -> Option<Mark> {
        let _naming = self.watch.naming.lock();
        let known = {
            let mut shared = self.watch.state.lock();
            shared.outstanding.take_mark(busy.name)?
        };
        if known.is_some() || matches!(busy.name, StreamName::PerThread { .. }) {
            return known;
        }
        let driver = &self.runtime.driver;
        let mut mark = None;
        // A stream that cannot be marked is not waited for here.
        driver
            .with_context(busy.context, &mut || {
                mark = Some(driver.mark(busy.stream)?);
                Ok(())
            })
            .ok()?;
        mark
    }

    /// The program has waited for a stream. Another thread may have launched
    /// into it since.
    pub fn stream_waited_for(&self, name: StreamName) {
        if !self.watch.wanted {
            return;
        }
        let busy = {
            let shared = self.watch.state.lock();
            shared.outstanding.find(name)
        };
        if let Some(busy) = busy
            && self.is_still_busy(&busy) == Some(false)
        {
            let old = {
                let mut shared = self.watch.state.lock();
                shared.outstanding.is_over(name, busy.last())
            };
            self.forget(old);
        }
    }

    /// The program is about to destroy a stream, or to capture it: it is not
    /// named to the driver any more.
    pub fn stream_over(&self, name: StreamName) {
        if self.watch.wanted {
            self.forget_streams(|busy| busy.name == name);
        }
    }

    fn forget_streams(&self, which: impl Fn(&outstanding::Busy) -> bool) {
        let _naming = self.watch.naming.lock();
        let marks = self.watch.state.lock().outstanding.remove(which);
        self.forget(marks);
    }

    /// Whether the guard may be on the device, by the driver's word.
    fn is_resident(&self) -> bool {
        let context = {
            let shared = self.watch.state.lock();
            match shared.machine.state(self.watch.ended()) {
                State::Off | State::Paused => return false,
                _ => shared.machine.context(),
            }
        };
        let driver = &self.runtime.driver;
        let mut idle = false;
        let asked = driver.with_context(context, &mut || {
            idle = driver.is_idle(SupportStream::Guard)?;
            Ok(())
        });
        match asked {
            Ok(()) => !idle,
            Err(error) => {
                // Its context has failed, and no kernel runs there any more.
                self.give_up(&error);
                false
            }
        }
    }

    /// Looks again and again, shortly at first. Whether it came true in time.
    fn wait_until(&self, deadline: Instant, is_true: impl Fn() -> bool) -> bool {
        for spin in 0u32.. {
            if is_true() {
                return true;
            }
            if spin < SPINS {
                std::hint::spin_loop();
            } else if Instant::now() >= deadline {
                return false;
            } else {
                std::thread::sleep(NAP);
            }
        }
        false
    }

    /// The process is about to end: the guard makes its last round.
    pub fn end(&self) {
        if !self.watch.wanted {
            return;
        }
        self.come_back();
        self.see_the_end();
        let slice = {
            let mut shared = self.watch.state.lock();
            let slice = shared.machine.pause();
            self.watch.stop(slice);
            slice
        };
        let is_over = || self.watch.ended() >= slice;
        // A guard that was killed with its context never answers.
        if !self.wait_until(Instant::now() + PATIENCE, is_over) && self.is_resident() {
            self.wait_until(Instant::now() + LAST_ROUND, is_over);
        }
        self.drain();
    }
}
