//! When canaries are verified.
//!
//! A launch that is to be followed by a check is *pending* in its stream. A
//! check goes into the stream when the budget allows it: when the time since
//! the last one, times the budget's percentage, is more than checks were seen
//! to take. It always goes there before the host waits for the stream, so what
//! a program has waited for is verified, and before a buffer is freed.
//!
//! Launches whose stream cannot be named by the thread that waits (another
//! thread's default stream), or is not known, are *loose*: they are verified
//! in a stream of Ringfence's own after the wait.
//!
//! Everything that happens has a number in one order; a finding names the
//! launches between the check that shows it and the one before.

use super::Canaries;
use super::history::{Checked, Launched, Reach, Waited};
use super::pending::{Pending, Slots, State};
use crate::launches::{Begun, Launches, Target};
use crate::request::{Submitted, Unchecked};
use crate::streams::{StreamName, Where};
use driver::{DriverError, SupportLaunch, SupportStream};
use model::layout::canary::{
    CHECK_STAMPS, CheckParameters, CheckStamp, NAMED_SLOTS, SLOTS_NAMED, STAMPS,
};
use model::{CanaryCoverage, DeviceAddress};
use parking_lot::{Mutex, MutexGuard, RwLock};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Threads of a block of the kernels.
const THREADS: u32 = 256;
/// Slots that have a block each; with more, each has a warp.
const BLOCKS: u32 = 64;
/// Most blocks.
const MOST_BLOCKS: u32 = 528;
/// Slots that one check looks at where the host does not wait.
const SHARD: u32 = 2048;
/// How long the end of a program waits for checks that are under way.
const LAST_CHECKS: Duration = Duration::from_secs(2);
/// Kernels of graphs that findings can name.
const GRAPH_KERNELS: usize = 64;

/// See the module's header.
pub(crate) struct Checks {
    budget: u32,
    order: AtomicU64,
    next: AtomicU64,
    /// Launches of graphs are to be followed by checks.
    graphs: AtomicBool,
    /// The program starts kernels before those before them have ended.
    early: AtomicBool,
    state: Mutex<State>,
    /// Held for reading while a check goes into a stream that another thread
    /// may destroy, and for writing before it does.
    streams: RwLock<()>,
}

impl Checks {
    pub fn new(budget: u32) -> Checks {
        Checks {
            budget,
            order: AtomicU64::new(0),
            next: AtomicU64::new(0),
            graphs: AtomicBool::new(false),
            early: AtomicBool::new(false),
            state: Mutex::default(),
            streams: RwLock::new(()),
        }
    }

    /// How much of the time checks may take, in percent.
    pub fn budget(&self) -> u32 {
        self.budget
    }

    /// The number of the newest check; 0 if there was none.
    pub fn newest(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The next place in the order of what happens.
    fn order(&self) -> u64 {
        self.orders(1)
    }

    /// The first of so many next places.
    pub fn orders(&self, count: u64) -> u64 {
        self.order.fetch_add(count, Ordering::Relaxed) + 1
    }

    /// Whether a check has ended.
    pub fn has_ended(&self, canaries: &Canaries, check: u64) -> bool {
        stamp(canaries, check).is_some_and(|stamp| stamp.check >= check)
    }

    /// What is known, with all that the threads have launched before.
    fn up_to_date(&self, launches: &Launches) -> MutexGuard<'_, State> {
        launches.settle();
        self.settled(launches)
    }

    /// What is known, with all that was settled before.
    fn settled(&self, launches: &Launches) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        // Under the lock: what another thread takes over is then there, too.
        launches.take_handed(|listed| state.take_over(self, listed));
        state
    }

    /// A context is gone.
    pub fn forget(&self, launches: &Launches, context: u64) {
        let mut state = self.up_to_date(launches);
        state
            .pending
            .retain(|_, pending| pending.context != context);
        state.loose.remove(&context);
    }

    /// Adds what is counted here.
    pub fn add_to(&self, canaries: &Canaries, mut counts: CanaryCoverage) -> CanaryCoverage {
        let mut state = self.state.lock();
        state.learn(canaries, self.newest());
        counts.checks = state.counts.checks;
        counts.nanoseconds = state.counts.nanoseconds;
        counts.latency_launches = state.counts.latency_launches;
        counts.latency_microseconds = state.counts.latency_microseconds;
        counts
    }

    /// [`History::candidates`](super::history::History::candidates).
    pub fn candidates(&self, check: u64, slot: Option<u32>, serial: u64) -> Vec<Launched> {
        self.state.lock().history.candidates(check, slot, serial)
    }
}

/// A scan of canaries by a kernel.
#[derive(Clone, Copy)]
pub(super) struct Scan<'a> {
    pub context: u64,
    /// The stream that it follows, if it follows one.
    pub name: Option<StreamName>,
    /// Where it goes.
    pub stream: SupportStream,
    /// The first slot, and how many.
    pub range: (u32, u32),
    pub slots: &'a Slots,
    /// Whether the slots' records are taken out of the table.
    pub retire: bool,
}

/// What a check has left, if that was not overwritten.
pub(super) fn stamp(canaries: &Canaries, check: u64) -> Option<CheckStamp> {
    let stamps = canaries.stamps.get()?;
    let at = check % STAMPS * size_of::<CheckStamp>() as u64;
    debug_assert!(stamps.extent().base.0 == CHECK_STAMPS);
    Some(CheckStamp {
        check: stamps.load_u64_acquire(at)?,
        begun: stamps.load_u64_acquire(at + 8)?,
        ended: stamps.load_u64_acquire(at + 16)?,
        reserved: 0,
    })
}

impl Canaries {
    /// Whether launches may have to be followed by checks: also where the guard
    /// should have watched them, and cannot.
    #[inline]
    pub(super) fn is_verifying(&self) -> bool {
        self.active.load(Ordering::Acquire) && (!self.watch_first || self.watch.is_off())
    }

    /// The slots of what the pointer arguments at these offsets point to;
    /// `None` if one cannot be read.
    fn reach_of(&self, offsets: &[u32], read: &dyn Fn(u32, u8) -> Option<u64>) -> Option<Reach> {
        let mut pointers: SmallVec<[(u32, u64); 4]> = SmallVec::new();
        for offset in offsets {
            pointers.push((*offset, read(*offset, 8)?));
        }
        let named = self.memory.read(|registry| {
            let slot = |(offset, pointer): (u32, u64)| {
                let entry = registry.find(DeviceAddress(pointer))?;
                let slot = entry.owner.redzones.slot?;
                Some((offset, slot, entry.allocation.serial))
            };
            pointers.into_iter().filter_map(slot).collect()
        });
        Some(Reach::Named(named))
    }

    /// The program launches a kernel that may start before the one before it
    /// has ended. If it never waits for that, it may also end before it: a
    /// check that waits itself, and sees to the last kernel only, could come too
    /// early. From here on all checks wait for everything.
    pub fn kernels_start_early(&self) {
        let early = &self.checks.early;
        if !early.load(Ordering::Relaxed) {
            early.store(true, Ordering::Release);
        }
    }

    /// A launch was made that is to be followed by a check. What findings need
    /// to know of it is gathered now, not while the device waits for it.
    pub(super) fn launched(&self, launch: &Submitted<'_>) {
        let function = launch.function;
        let stack = function.and_then(|function| self.launches.capture_stack(&function.stacks));
        let written = || {
            let function = function.filter(|_| launch.unchecked == Unchecked::ByArguments)?;
            let plan = function.plan.as_ref()?;
            self.reach_of(plan.written(&function.name)?, launch.read)
        };
        let reach = written().unwrap_or(Reach::All);
        let ordinal = match launch.ordinal {
            0 => self.launches.next(),
            known => known,
        };
        // Its place in the order is known when it is put there.
        let launched = Launched {
            order: 0,
            stream: None,
            reach,
            kernels: function.cloned().into_iter().collect(),
            launch: ordinal,
            stack,
        };
        self.follow(launched, launch.place);
    }

    /// Launches of the calling thread were settled that are to be followed by checks,
    /// the last of them in this stream.
    pub(super) fn settled(&self, name: StreamName, now: Instant) {
        // (The lists of other threads wait until a check is made.)
        let due = self.checks.settled(&self.launches).due(self, name, now);
        if let Some((name, pending)) = due {
            self.verify(Some(name), pending, false, now);
            self.records.expect();
        }
    }

    /// Sees to it that a check follows, now or later.
    fn follow(&self, mut launched: Launched, place: Where) {
        let checks = &self.checks;
        let context = match place {
            Where::Stream { name, .. } => name.context_or_current(self.env.driver()),
            _ => self.env.driver().current_context(),
        };
        let mut due = None;
        let now = Instant::now();
        {
            let mut state = checks.up_to_date(&self.launches);
            let state = &mut *state;
            let stream = match place {
                Where::Graph => {
                    checks.graphs.store(true, Ordering::Relaxed);
                    if let Some(function) = launched.kernels.pop()
                        && state.graph_kernels.len() < GRAPH_KERNELS
                        && !state
                            .graph_kernels
                            .iter()
                            .any(|(known, _)| known.name == function.name)
                    {
                        state.graph_kernels.push((function, launched.stack));
                    }
                    return;
                }
                Where::Unknown => None,
                Where::Stream { name, .. } => Some(name),
            };
            launched.order = checks.order();
            launched.stream = stream;
            match place {
                Where::Stream {
                    name,
                    handle,
                    per_thread,
                } => {
                    let stream = SupportStream::Program { handle, per_thread };
                    let pending = state.pending_in(Begun {
                        target: Target { name, stream },
                        context,
                        since: now,
                        is_verified: true,
                    });
                    pending.launches += 1;
                    pending.slots.add(&launched.reach);
                    due = state.due(self, name, now);
                }
                _ => *state.loose.entry(context).or_default() += 1,
            }
            state.history.launched(launched);
        }
        if let Some((name, pending)) = due {
            self.verify(Some(name), pending, false, now);
        }
        self.records.expect();
    }

    /// A graph was launched in a stream.
    pub(super) fn graph_launched(&self, place: Where) {
        let checks = &self.checks;
        let always = !self.env.settings().protect.bounds;
        if !self.is_verifying() || !(always || checks.graphs.load(Ordering::Relaxed)) {
            return;
        }
        let known = checks.state.lock().graph_kernels.clone();
        // Where the node was made, if it is no other.
        let stack = match known.as_slice() {
            [(_, stack)] => stack.clone(),
            _ => None,
        };
        let launched = Launched {
            order: 0,
            stream: None,
            kernels: known.into_iter().map(|(function, _)| function).collect(),
            reach: Reach::All,
            launch: 0,
            stack,
        };
        self.follow(launched, place);
    }

    /// The host is about to wait: for a stream, or (`None`) for everything in
    /// the current context.
    pub(super) fn scan_before_wait(&self, stream: Option<StreamName>) {
        if !self.is_verifying() {
            return;
        }
        let context = self.env.driver().current_context();
        let checks = &self.checks;
        let _streams = checks.streams.read();
        let ready: SmallVec<[(StreamName, Pending); 2]> = {
            let mut state = checks.up_to_date(&self.launches);
            let state = &mut *state;
            let wanted: SmallVec<[StreamName; 2]> = state
                .pending
                .iter()
                .filter(|(name, pending)| match stream {
                    Some(stream) => **name == stream && pending.context == context,
                    None => pending.context == context,
                })
                .map(|(name, _)| *name)
                .collect();
            let mut ready = SmallVec::new();
            for name in wanted {
                let foreign = matches!(name, StreamName::PerThread { .. }) && stream.is_none();
                let Some(pending) = state.pending.remove(&name) else {
                    continue;
                };
                if foreign {
                    *state.loose.entry(context).or_default() += pending.launches;
                } else {
                    ready.push((name, pending));
                }
            }
            ready
        };
        for (name, pending) in ready {
            self.verify(Some(name), pending, true, Instant::now());
        }
    }

    /// The host has waited: as [`Canaries::scan_before_wait`].
    pub(super) fn after_wait(&self, stream: Option<StreamName>) {
        if !self.is_verifying() {
            return;
        }
        let checks = &self.checks;
        let context = self.env.driver().current_context();
        let loose = {
            let mut state = checks.up_to_date(&self.launches);
            let order = checks.order();
            state.history.waited(Waited { order, stream });
            match stream {
                None => state.loose.remove(&context),
                Some(_) => None,
            }
        };
        if let Some(launches) = loose {
            self.verify(
                None,
                Pending::loose(context, launches),
                true,
                Instant::now(),
            );
            self.wait_for_checks();
        }
    }

    /// The program ends: what it has not waited for is verified, if its kernels
    /// end soon.
    pub(super) fn last_checks(&self) {
        let context = self.env.driver().current_context();
        if !self.is_verifying() || context == 0 {
            return;
        }
        let checks = &self.checks;
        let before = checks.newest();
        self.scan_before_wait(None);
        let loose = checks.state.lock().loose.remove(&context);
        if let Some(launches) = loose {
            self.verify(
                None,
                Pending::loose(context, launches),
                true,
                Instant::now(),
            );
        }
        let after = checks.newest();
        let start = Instant::now();
        for check in before + 1..=after {
            while !checks.has_ended(self, check) && start.elapsed() < LAST_CHECKS {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        self.records.read();
    }

    /// The program is about to destroy a stream.
    pub(super) fn checks_before_end(&self, stream: StreamName) {
        if !self.is_verifying() {
            return;
        }
        self.scan_before_wait(Some(stream));
        let checks = &self.checks;
        // The thread that worked on it is done with it.
        let _streams = checks.streams.write();
        checks.state.lock().pending.remove(&stream);
    }

    /// Verifies what is pending. The host began with that at `begun`: what finds out that
    /// a check is due is part of what it costs.
    fn verify(&self, name: Option<StreamName>, pending: Pending, whole: bool, begun: Instant) {
        self.clear_stale();
        let high = self.slots();
        let (first, count) = if !pending.slots.all {
            (SLOTS_NAMED, pending.slots.named.len() as u32)
        } else if whole || high <= SHARD {
            (0, high)
        } else {
            let mut state = self.checks.state.lock();
            let first = if state.cursor < high { state.cursor } else { 0 };
            let count = SHARD.min(high - first);
            state.cursor = first + count;
            (first, count)
        };
        let is_part = pending.slots.all && count < high;
        if count == 0 {
            return;
        }
        let launched = self.launch_scan(&Scan {
            context: pending.context,
            name,
            stream: pending.stream,
            range: (first, count),
            slots: &pending.slots,
            retire: false,
        });
        match launched {
            Ok(_) => {
                let mut state = self.checks.state.lock();
                state.count(&pending);
                state.host_took(begun.elapsed());
                // The rest waits for the next.
                if is_part && let Some(name) = name {
                    let kept = state.pending.entry(name).or_insert_with(|| pending.clone());
                    kept.slots.all = true;
                    kept.since = kept.since.min(pending.since);
                    if first + count >= high {
                        kept.launches = 0;
                        kept.since = Instant::now();
                    }
                }
            }
            Err(error) => self.check_failed(&error),
        }
    }

    pub(super) fn check_failed(&self, error: &DriverError) {
        // A kernel of the program that faulted ends everything in its context,
        // and says so itself.
        let message = format!("canaries could not be verified after a kernel: {error}");
        if !error.is_sticky() {
            self.env.error(&message, false);
        }
    }

    /// Launches a scan. Returns its number, or 0 where no kernel can make it.
    pub(super) fn launch_scan(&self, scan: &Scan<'_>) -> Result<u64, DriverError> {
        let Scan {
            context,
            name,
            stream,
            range: (first, count),
            slots,
            retire,
        } = *scan;
        let Some(kernels) = self.kernels_of(context) else {
            return Ok(0);
        };
        self.restore_check_memory()?;
        let checks = &self.checks;
        let number = {
            // What was launched before has a place before it in the order. Numbers are
            // in the order of the list.
            let mut state = checks.up_to_date(&self.launches);
            let number = checks.next.fetch_add(1, Ordering::Relaxed) + 1;
            let entry = Checked {
                number,
                order: checks.order(),
                stream: name,
                slots: slots.clone(),
            };
            state.history.checked(entry);
            state.counts.checks += 1;
            number
        };
        let mut named = [0; NAMED_SLOTS];
        for (place, slot) in named.iter_mut().zip(&slots.named) {
            *place = *slot;
        }
        let parameters = CheckParameters {
            check: number,
            context,
            first,
            count,
            retire: u32::from(retire),
            reserved: 0,
            slots: named,
        };
        let blocks = match count {
            ..=BLOCKS => count,
            _ => count.div_ceil(THREADS / 32).min(MOST_BLOCKS),
        };
        let launch = SupportLaunch {
            blocks,
            threads: THREADS,
            parameters: &parameters.bytes(),
            stream,
            // The last look at a slot's canaries is after everything.
            waits_itself: kernels.check_waits && !retire && !checks.early.load(Ordering::Acquire),
        };
        self.env.driver().launch_support(kernels.check, &launch)?;
        Ok(number)
    }

    /// Waits for checks in Ringfence's own stream, and reads what they tell.
    pub(super) fn wait_for_checks(&self) {
        if let Err(error) = self.env.driver().wait_for_own() {
            self.check_failed(&error);
        }
        self.records.read();
    }
}
