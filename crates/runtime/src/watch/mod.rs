//! The guard: a kernel of one warp that stays on the device beside the
//! program's kernels and verifies canaries while they run (`device/guard.cu`,
//! after GMOD).
//!
//! It must never change what the program observes. Some calls of the driver
//! wait until nothing runs in the context any more, and a guard that stays
//! would be waited for: the shim pauses it around them ([`Watch::pause`]),
//! and where the call would wait for the program's kernels anyway, these are
//! waited for first, under the guard's eyes. It comes back at the next launch,
//! or at once if kernels still run. Two safeguards cover calls that are not
//! known to wait: each slice of the guard ends by itself, and a thread, the
//! *supervisor*, which launches the next one, pauses the guard for a moment when
//! it sees a thread of the program stuck in a call.
//!
//! Who may do what: [`machine`] says when a slice may be launched and is the
//! only place that counts them; [`words`] says what follows from what the
//! guard writes; both are run through every interleaving by `model`.

mod calls;
mod found;
mod machine;
#[cfg(test)]
mod model;
mod outstanding;
mod ring;
mod slices;
mod streams;
mod supervisor;
mod words;

use crate::env::Env;
use crate::launches::Launches;
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::modules::Modules;
use crate::records::Records;
use crate::reporter::Reporter;
use crate::streams::StreamName;
use crate::turn::Turn;
use ::model::layout::guard::{ENDED, EPOCH, TABLE_SLOTS};
use calls::{Calls, Inside, Stuck};
use driver::{HostMapping, StreamEvent, SupportKernel, SupportStream};
use machine::{Machine, State};
use outstanding::{Outstanding, Run};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use supervisor::Supervisor;
use words::Words;

/// After so long without an answer the driver is asked whether the guard is
/// still there.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long a process that ends waits for the guard's last round.
const LAST_ROUND: Duration = Duration::from_millis(200);

/// The guard that watches kernels while they run; see the module's header.
pub struct Watch {
    me: Weak<Watch>,
    env: Arc<Env>,
    memory: Arc<Memory>,
    metadata: Arc<Metadata>,
    modules: Arc<Modules>,
    recent: Arc<Launches>,
    reporter: Arc<Reporter>,
    records: Arc<Records>,
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
    supervisor: Supervisor,
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
    /// Calls for which the supervisor pauses the guard.
    aside: Option<Stuck>,
    /// Places that must be over before the guard comes back: kernels that need
    /// the whole device.
    alone: Vec<(u64, StreamEvent)>,
}

/// The services that the guard uses.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub metadata: Arc<Metadata>,
    pub modules: Arc<Modules>,
    pub launches: Arc<Launches>,
    pub reporter: Arc<Reporter>,
    pub records: Arc<Records>,
}

impl Watch {
    pub(crate) fn new(below: Below) -> Arc<Watch> {
        let settings = below.env.settings();
        Arc::new_cyclic(|me| Watch {
            me: me.clone(),
            memory: below.memory,
            metadata: below.metadata,
            modules: below.modules,
            recent: below.launches,
            reporter: below.reporter,
            records: below.records,
            wanted: settings.protect.watch && settings.check,
            slice: settings.watch_slice,
            state: Mutex::default(),
            words: OnceLock::new(),
            setting_up: Turn::default(),
            slots: AtomicU64::new(0),
            naming: Mutex::new(()),
            supervisor: Supervisor::default(),
            calls: Calls::default(),
            draining: Turn::default(),
            drained: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            alone: AtomicU64::new(0),
            stacks: AtomicU32::new(0),
            aside: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            off: OnceLock::new(),
            env: below.env.clone(),
        })
    }

    /// What the guard says about its slices.
    fn ended(&self) -> u64 {
        self.words.get().map_or(0, |words| words.load(ENDED))
    }

    /// Says in the guard's place that a slice has ended, which was killed.
    fn has_ended(&self, slice: u64) {
        if let Some(words) = self.words.get() {
            words.store(ENDED, slice);
        }
    }

    /// The guard's round.
    fn round(&self) -> u64 {
        self.words.get().map_or(0, |words| words.load(EPOCH))
    }

    /// Notifies the guard to end, as the machine says; the lock is held.
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

/// The guard stays away until this is dropped.
pub struct Paused<'a> {
    watch: Option<&'a Watch>,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.watch {
            watch.resume();
        }
    }
}

/// A thread is inside a call of the program's; see [`Watch::enter`].
pub struct Entered {
    _inside: Option<Inside>,
}

impl Watch {
    /// Whether the user asked for it.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether the user asked for it, and it cannot be: what it would have
    /// found must be looked for after launches.
    pub fn is_off(&self) -> bool {
        self.wanted && self.off.get().is_some()
    }

    /// Whether there is something for the guard to look at, and it can.
    fn is_needed(&self) -> bool {
        let something = self.slots.load(Ordering::Acquire) != 0 || self.metadata.watches_heap();
        self.wanted && something && self.off.get().is_none()
    }

    /// So many slots of the table of canaries are in use, and their memory is
    /// there. Call it before records are written behind the old end.
    pub fn table_slots(&self, slots: u64) {
        self.slots.store(slots, Ordering::Release);
        if let Some(words) = self.words.get() {
            words.store(TABLE_SLOTS, slots);
            return;
        }
        // The first buffer. The guard's first round is slow, because its code
        // is not in any cache: it had better be over when kernels come.
        if self.is_needed() {
            self.state.lock().launched = true;
            self.start(self.env.driver().current_context());
        }
    }

    /// A thread of the program enters a call; it is inside until the answer is
    /// dropped.
    pub fn enter(&self) -> Entered {
        Entered {
            _inside: self.wanted.then(|| self.calls.enter()),
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
        let ordinal = self.launches.fetch_add(1, Ordering::Relaxed) + 1;
        let run = Run {
            ordinal,
            function: launch.function,
            stack: self.recent.capture_stack(&self.stacks),
            round: self.round(),
        };
        {
            let mut shared = self.state.lock();
            shared
                .outstanding
                .add(launch.name, launch.stream, launch.context, run);
            shared.launched = true;
        }
        self.start(launch.context);
    }

    /// The launch was made, or has failed: whatever [`Watch::launching`] was
    /// called for. Streams that only this thread can name are marked.
    pub fn launched(&self, launch: &WatchedLaunch) {
        if !self.wanted {
            return;
        }
        self.state.lock().outstanding.launched(launch.name);
        let StreamName::PerThread { .. } = launch.name else {
            return;
        };
        if !self.is_needed() {
            return;
        }
        if let Ok(event) = self.env.driver().record_event(launch.stream) {
            let old = {
                let mut shared = self.state.lock();
                shared.outstanding.set_event(launch.name, event)
            };
            self.forget(old);
        }
    }

    /// Redzones a call of the program's that may wait for the whole device.
    pub fn pause(&self, waits: Waits) -> Paused<'_> {
        if !self.wanted {
            return Paused { watch: None };
        }
        self.come_back();
        if waits == Waits::ForAll && self.is_at_work() {
            self.wait_for_streams();
        }
        self.hold();
        Paused { watch: Some(self) }
    }

    /// Notifies the guard to make its last round, and keeps it from coming back.
    /// Returns the slice whose end ends it.
    fn hold(&self) -> u64 {
        self.see_the_end();
        let mut shared = self.state.lock();
        let slice = shared.machine.pause();
        self.stop(slice);
        slice
    }

    /// The launch that was just made needs the whole device: the guard, which is
    /// paused, stays away until it is over. Then it looks at what the kernel
    /// left.
    pub fn stay_away(&self, launch: &WatchedLaunch, paused: Paused<'_>) {
        if !self.is_needed() {
            return;
        }
        self.alone.fetch_add(1, Ordering::Relaxed);
        // What cannot be marked is over in time, or ends with a slice.
        if let Ok(event) = self.env.driver().record_event(launch.stream) {
            self.state.lock().alone.push((launch.context, event));
            self.supervisor.wake(&self.me);
            // `resume` is the supervisor's to call.
            std::mem::forget(paused);
        }
    }

    /// Launches for which the guard stayed away.
    pub(crate) fn not_watched(&self) -> u64 {
        self.alone.load(Ordering::Relaxed)
    }

    /// Lets the guard come back from what was alone on the device and is over.
    fn end_of_being_alone(&self) {
        let alone = std::mem::take(&mut self.state.lock().alone);
        for (context, event) in alone {
            let driver = self.env.driver();
            let mut over = false;
            let asked = driver.with_context(context, &mut || {
                over = driver.is_over(event)?;
                Ok(())
            });
            if over || asked.is_err() {
                driver.destroy_event(event);
                self.resume();
            } else {
                self.state.lock().alone.push((context, event));
            }
        }
    }

    /// As [`Watch::pause`] with [`Waits::Perhaps`], before a context goes:
    /// no slice of the guard is being launched in it any more.
    pub fn pause_for_good(&self, context: u64) -> Paused<'_> {
        let paused = self.pause(Waits::Perhaps);
        if !self.wanted {
            return paused;
        }
        let deadline = Instant::now() + LAST_ROUND;
        self.wait_until(deadline, || {
            self.state.lock().machine.state(0) != State::Restarting
        });
        self.forget_streams(|busy| busy.context == context);
        // Nothing is started where the context may be gone by then.
        self.state.lock().launched = false;
        paused
    }

    /// The context is gone.
    pub fn context_gone(&self, context: u64) {
        if !self.wanted {
            return;
        }
        let (ours, slice) = {
            let mut shared = self.state.lock();
            shared.kernels.remove(&context);
            shared.outstanding.context_gone(context);
            let ours = shared.machine.context_gone(context);
            (ours, shared.machine.launched())
        };
        self.doubtful.store(true, Ordering::Release);
        if ours {
            // Where a kernel of the program failed, the guard was killed, too.
            self.has_ended(slice);
        }
    }

    fn resume(&self) {
        // What the guard found in its last round is reported before the call returns.
        self.drain();
        let is_free = self.state.lock().machine.resume();
        if is_free {
            self.start_for_what_runs();
        }
    }

    /// The process is about to end: the guard makes its last round.
    pub fn end(&self) {
        if !self.wanted {
            return;
        }
        self.come_back();
        let slice = self.hold();
        let is_over = || self.ended() >= slice;
        // A guard that was killed with its context never answers.
        if !self.wait_until(Instant::now() + PATIENCE, is_over) && self.is_resident() {
            self.wait_until(Instant::now() + LAST_ROUND, is_over);
        }
        self.drain();
    }
}
