//! The supervisor: a thread that launches the guard's next slice when one has
//! ended by itself, reports what was found, and pauses the guard for a moment
//! when a thread of the program is stuck in a call. It holds no strong
//! reference and is never joined: it cannot keep a process from exiting.

use super::Watch;
use super::calls::Stuck;
use super::machine::State;
use parking_lot::{Condvar, Mutex};
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks while the guard is at work.
const TICK: Duration = Duration::from_millis(1);
/// The same when it is not.
const REST: Duration = Duration::from_millis(200);
/// Looks without work before it rests.
const QUIET: u32 = 500;
/// Looks from one look for stuck threads to the next.
const STUCK: u32 = 20;
/// How long the guard stays away then. A call that waited for it is through by
/// then; one that is not waits for something else.
const MOMENT: Duration = Duration::from_millis(2);

/// Whether the thread runs, and how it is woken.
#[derive(Default)]
pub(crate) struct Supervisor {
    started: AtomicBool,
    resting: Mutex<bool>,
    woken: Condvar,
}

impl Supervisor {
    /// The guard was launched. Starts the thread at the first time.
    pub fn wake(&self, watch: &Weak<Watch>) {
        if !self.started.load(Ordering::Relaxed) && !self.started.swap(true, Ordering::Relaxed) {
            let watch = watch.clone();
            let spawned = std::thread::Builder::new()
                .name("ringfence-watch".into())
                .stack_size(1 << 20)
                .spawn(move || keep(&watch));
            if spawned.is_err() {
                // Slices still start with launches; try again at the next.
                self.started.store(false, Ordering::Relaxed);
            }
        }
        if *self.resting.lock() {
            self.woken.notify_one();
        }
    }

    fn rest(&self) {
        let mut resting = self.resting.lock();
        *resting = true;
        self.woken.wait_for(&mut resting, REST);
        *resting = false;
    }
}

fn keep(watch: &Weak<Watch>) {
    let mut quiet = 0;
    for look in 1u32.. {
        let Some(watch) = watch.upgrade() else {
            return;
        };
        if watch.records.is_finished() {
            return;
        }
        if watch.look(look.is_multiple_of(STUCK)) {
            quiet = 0;
        } else {
            quiet += 1;
        }
        if quiet > QUIET {
            watch.supervisor.rest();
        } else {
            drop(watch);
            std::thread::sleep(TICK);
        }
    }
}

impl Watch {
    /// What the supervisor does each time. Whether there is work for the guard.
    fn look(&self, for_stuck: bool) -> bool {
        self.drain();
        self.end_of_being_alone();
        let (state, held, busy) = {
            let shared = self.state.lock();
            (
                shared.machine.state(self.ended()),
                shared.machine.is_held(),
                !shared.outstanding.is_empty(),
            )
        };
        match state {
            State::Paused if busy && !held => {
                self.start_for_what_runs();
            }
            State::Running if for_stuck => {
                if let Some(stuck) = self.calls.stuck() {
                    self.step_aside(stuck);
                }
            }
            _ => {}
        }
        busy || matches!(state, State::Running | State::Pausing | State::Restarting)
    }

    /// The guard goes away for a moment, because calls may be waiting for it.
    /// It may come back as soon as they are over: the program goes on then, and
    /// what it does next is to be seen.
    fn step_aside(&self, stuck: Stuck) {
        {
            let mut shared = self.state.lock();
            let slice = shared.machine.pause();
            shared.aside = Some(stuck);
            self.aside.store(true, Ordering::Release);
            self.stop(slice);
        }
        std::thread::sleep(MOMENT);
        let is_ours = self.state.lock().aside.take().is_some();
        self.aside.store(false, Ordering::Release);
        if is_ours {
            self.resume();
        }
    }

    /// The program does something: the guard is not aside any more for calls
    /// that are over.
    pub(super) fn come_back(&self) {
        if !self.aside.load(Ordering::Acquire) {
            return;
        }
        let mut shared = self.state.lock();
        if shared.aside.as_ref().is_some_and(Stuck::are_over) {
            shared.aside = None;
            shared.machine.resume();
        }
    }
}
