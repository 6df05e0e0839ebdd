//! Who compiles: so many at a time, and the others in the order in which they came.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often one that waits looks whether anybody needs its result.
const TICK: Duration = Duration::from_millis(50);

/// The turns.
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: usize,
    waiting: VecDeque<u64>,
    next: u64,
}

/// A turn, until it is dropped.
pub(super) struct Turn<'t>(&'t Turns);

impl Turns {
    /// So many at a time.
    pub(super) fn new(count: usize) -> Turns {
        Turns {
            state: Mutex::new(State {
                free: count.max(1),
                waiting: VecDeque::new(),
                next: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits for a turn; `None` if it was cancelled.
    pub(super) fn take(&self, cancelled: &AtomicBool) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        let own = state.next;
        state.next += 1;
        state.waiting.push_back(own);
        loop {
            if cancelled.load(Ordering::Acquire) {
                state.waiting.retain(|waiting| *waiting != own);
                drop(state);
                self.changed.notify_all();
                return None;
            }
            if state.free > 0 && state.waiting.front() == Some(&own) {
                state.waiting.pop_front();
                state.free -= 1;
                drop(state);
                // The next one may have room, too.
                self.changed.notify_all();
                return Some(Turn(self));
            }
            self.changed.wait_for(&mut state, TICK);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state.lock().free += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn as_many_as_may_are_at_work_and_who_is_cancelled_leaves() {
        let turns = Turns::new(2);
        let never = AtomicBool::new(false);
        let first = turns.take(&never).unwrap();
        let _second = turns.take(&never).unwrap();
        assert!(turns.take(&AtomicBool::new(true)).is_none());
        drop(first);
        assert!(turns.take(&never).is_some(), "nobody waits before it");
    }

    #[test]
    fn no_more_than_that_at_a_time() {
        let turns = Arc::new(Turns::new(3));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let _turn = turns.take(&AtomicBool::new(false)).unwrap();
                    most.fetch_max(now.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
                    std::thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        assert_eq!(most.load(Ordering::Acquire), 3);
    }
}
