//! Program threads that are inside a hooked call: the supervisor looks whether one
//! is stuck there, because the call may be waiting for the guard.
//!
//! A thread has a number that is odd while it is inside. It alone writes it;
//! the supervisor, seeing the same odd number twice, knows that the thread has been
//! in one call all the time between.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

thread_local! {
    static MINE: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

/// One thread, as the supervisor sees it.
struct Thread {
    number: Weak<AtomicU64>,
    /// What the number was when the supervisor looked last.
    seen: u64,
    /// The call for which the guard was paused in vain.
    tried: u64,
}

/// Calls in which threads were stuck.
#[derive(Debug)]
pub(crate) struct Stuck(Vec<(Arc<AtomicU64>, u64)>);

impl Stuck {
    /// Whether all of them have returned.
    pub fn are_over(&self) -> bool {
        let mut calls = self.0.iter();
        calls.all(|(number, seen)| number.load(Ordering::Acquire) != *seen)
    }
}

/// All threads that ever made a hooked call.
#[derive(Default)]
pub(crate) struct Calls {
    threads: Mutex<Vec<Thread>>,
}

/// A thread is inside a call until this is dropped.
pub(crate) struct Inside {
    number: Option<Arc<AtomicU64>>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(number) = &self.number {
            number.fetch_add(1, Ordering::Release);
        }
    }
}

/// A thread that is inside a call counts as outside until this is dropped.
pub(crate) struct Outside {
    number: Option<Arc<AtomicU64>>,
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(number) = &self.number {
            number.fetch_add(1, Ordering::Release);
        }
    }
}

impl Calls {
    /// The calling thread, if it is inside, is about to wait for kernels: that
    /// is not being stuck.
    pub fn leave(&self) -> Outside {
        let number = MINE.try_with(|mine| {
            let mine = mine.borrow();
            let number = mine.as_ref()?;
            (number.load(Ordering::Relaxed) % 2 == 1).then(|| {
                number.fetch_add(1, Ordering::Release);
                number.clone()
            })
        });
        Outside {
            number: number.ok().flatten(),
        }
    }

    /// The calling thread enters a call. Calls within calls count as one.
    pub fn enter(&self) -> Inside {
        let number = MINE.try_with(|mine| {
            let mut mine = mine.borrow_mut();
            let number = mine.get_or_insert_with(|| {
                let number = Arc::new(AtomicU64::new(0));
                self.threads.lock().push(Thread {
                    number: Arc::downgrade(&number),
                    seen: 0,
                    tried: 0,
                });
                number
            });
            let inside = number.load(Ordering::Relaxed) % 2 == 1;
            (!inside).then(|| {
                number.fetch_add(1, Ordering::Release);
                number.clone()
            })
        });
        // A thread whose locals are gone is not watched.
        Inside {
            number: number.ok().flatten(),
        }
    }

    /// The calls in which threads have been since the last look, if the guard
    /// was not yet paused for one of them.
    pub fn stuck(&self) -> Option<Stuck> {
        let mut stuck = Vec::new();
        let mut is_new = false;
        self.threads.lock().retain_mut(|thread| {
            let Some(number) = thread.number.upgrade() else {
                return false;
            };
            let now = number.load(Ordering::Acquire);
            if now % 2 == 1 && now == thread.seen {
                is_new |= now != thread.tried;
                thread.tried = now;
                stuck.push((number, now));
            }
            thread.seen = now;
            true
        });
        is_new.then_some(Stuck(stuck))
    }
}

#[cfg(test)]
mod tests {
    use super::Calls;

    #[test]
    fn only_a_call_that_lasts_is_stuck_and_only_once() {
        let calls = Calls::default();
        let outer = calls.enter();
        assert!(calls.stuck().is_none(), "seen for the first time");
        let inner = calls.enter();
        drop(inner);
        let stuck = calls.stuck().expect("still in the outer call");
        assert!(calls.stuck().is_none(), "tried already");
        assert!(!stuck.are_over());
        drop(outer);
        assert!(stuck.are_over());
        assert!(calls.stuck().is_none());
        let other = calls.enter();
        assert!(stuck.are_over(), "another call");
        drop(other);
        drop(calls.enter());
        assert!(calls.stuck().is_none(), "other calls");
    }
}
