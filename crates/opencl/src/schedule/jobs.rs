//! Pending jobs: how much memory they hold, and waits for them.

use crate::sys::*;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What concludes a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The platform, which calls back in the order of what ends.
    Platform,
    /// A thread that waited.
    Waiter,
}

/// A job that is concluded by the first of two: the platform, which calls back,
/// or a thread of the program that waits and finds that all commands have
/// ended. Platforms may call back late.
pub trait Conclude: Send + Sync {
    /// The status with which its last command has ended; `None`: it has not.
    fn ended(&self) -> Option<cl_int>;

    /// Concludes it, unless that was done before.
    fn conclude(&self, status: cl_int, by: By);
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
    /// The job, if a waiting thread may conclude it.
    slot: Option<Arc<dyn Conclude>>,
}

/// Bytes that jobs may hold on the host: a program may enqueue thousands of
/// launches before it waits for any.
const MOST_HELD: u64 = 256 << 20;

/// How long a launch may be delayed for memory: the jobs may depend on the
/// program's own next call.
const FOR_ROOM: Duration = Duration::from_secs(1);

/// How long a platform may take to call back after it reported that all
/// commands have ended.
pub const PATIENCE: Duration = Duration::from_secs(10);

impl Jobs {
    /// Counts another job, and returns its number.
    pub fn begin(&self, queue: usize, kernel: Option<&str>) -> u64 {
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

    /// A job is over.
    pub fn end(&self, number: u64) {
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

    /// Offers a job to the threads that wait for it.
    pub fn offer(&self, number: u64, slot: Arc<dyn Conclude>) {
        if let Some(pending) = self.state.lock().pending.get_mut(&number) {
            pending.slot = Some(slot);
        }
    }

    /// Concludes jobs whose commands are complete, without waiting for the
    /// platform's callback.
    fn conclude(&self, which: &impl Fn(u64, usize) -> bool) {
        let slots: Vec<Arc<dyn Conclude>> = {
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
            if let Some(status) = slot.ended() {
                slot.conclude(status, By::Waiter);
            }
        }
    }

    /// Counts what a job holds on the host.
    pub fn hold(&self, number: u64, bytes: u64) {
        let mut state = self.state.lock();
        if let Some(pending) = state.pending.get_mut(&number) {
            pending.held += bytes;
            state.held += bytes;
        }
    }

    /// Whether this many more bytes would exceed the limit.
    pub fn is_full(&self, more: u64) -> bool {
        self.state.lock().held.saturating_add(more) > MOST_HELD
    }

    /// Waits, for a limited time, until half of what jobs may hold is free: no
    /// scan is skipped because memory was short.
    pub fn make_room(&self) {
        let deadline = Instant::now() + FOR_ROOM;
        let mut state = self.state.lock();
        while state.held > MOST_HELD / 2 {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    /// Waits until the jobs so far that `which` selects have ended.
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

    /// The kernel of each scan that has not ended.
    pub fn unfinished(&self) -> Vec<String> {
        let state = self.state.lock();
        let names = state.pending.values();
        let names = names.filter_map(|pending| pending.kernel.clone());
        names.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Weak;

    /// A job that ends when its status is queried.
    struct Ready {
        jobs: Weak<Jobs>,
        number: u64,
        concluded: Mutex<Vec<By>>,
    }

    impl Conclude for Ready {
        fn ended(&self) -> Option<cl_int> {
            Some(CL_SUCCESS)
        }

        fn conclude(&self, _status: cl_int, by: By) {
            self.concluded.lock().push(by);
            if let Some(jobs) = self.jobs.upgrade() {
                jobs.end(self.number);
            }
        }
    }

    #[test]
    fn memory_is_full_until_half_of_it_is_free() {
        let jobs = Jobs::default();
        let first = jobs.begin(1, Some("k"));
        let second = jobs.begin(1, None);
        jobs.hold(first, MOST_HELD - 10);
        assert!(!jobs.is_full(10));
        assert!(jobs.is_full(11));
        jobs.hold(second, 10);
        assert!(jobs.is_full(1));
        assert_eq!(jobs.unfinished(), ["k"], "only of kernels");
        jobs.end(first);
        assert!(!jobs.is_full(1));
        jobs.end(first);
        jobs.make_room();
        assert!(jobs.unfinished().is_empty());
    }

    #[test]
    fn who_waits_concludes_only_what_is_meant() {
        let jobs = Arc::new(Jobs::default());
        let ready = |queue| {
            let number = jobs.begin(queue, None);
            let ready = Arc::new(Ready {
                jobs: Arc::downgrade(&jobs),
                number,
                concluded: Mutex::default(),
            });
            jobs.offer(number, ready.clone());
            ready
        };
        let (one, two) = (ready(1), ready(2));
        jobs.wait(PATIENCE, |_, queue| queue == 2);
        assert_eq!(*one.concluded.lock(), []);
        assert_eq!(*two.concluded.lock(), [By::Waiter]);
    }

    #[test]
    fn a_wait_ends_when_patience_does_or_the_job() {
        let jobs = Arc::new(Jobs::default());
        let number = jobs.begin(1, None);
        let begun = Instant::now();
        jobs.wait(Duration::from_millis(20), |_, _| true);
        assert!(begun.elapsed() >= Duration::from_millis(20));
        let other = jobs.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.end(number);
        });
        jobs.wait(PATIENCE, |_, _| true);
        assert!(begun.elapsed() < PATIENCE);
        thread.join().unwrap();
    }
}
