//! When what threads keep of decisions is out of date.
//!
//! A kernel that can never be checked, such as one without PTX, needs no decision
//! when it is launched again ([`ledger`](crate::launches)), as long as nothing has
//! changed that decides about such launches: which kernels there are, whether streams
//! are tracked or captured, whether buffers are still to get canaries, whether launches
//! are verified afterwards. All of that is rare, so one number stands for it, which a
//! launch compares. Whoever changes any of it says so here, after the change is made
//! and before it matters to anybody.

use std::sync::atomic::{AtomicU64, Ordering};

/// What tells moments apart. What every launch compares has a line of the cache of its
/// own.
#[repr(align(64))]
struct Clock {
    newest: AtomicU64,
    /// Changes with the kernels that there are, before `newest` does.
    kernels: AtomicU64,
}

impl Clock {
    const fn new(first: u64) -> Clock {
        Clock {
            newest: AtomicU64::new(first),
            kernels: AtomicU64::new(first),
        }
    }
}

static OF_THE_PROCESS: Clock = Clock::new(1);

#[cfg(not(test))]
#[inline]
fn clock() -> &'static Clock {
    &OF_THE_PROCESS
}

#[cfg(test)]
use of_one_test::clock;

/// A time in which nothing changes that decides about launches which are never
/// checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The time itself.
    number: u64,
    /// The kernels that there are.
    kernels: u64,
}

impl Moment {
    /// The present one.
    pub fn now() -> Moment {
        let clock = clock();
        let number = clock.newest.load(Ordering::Acquire);
        Moment {
            number,
            kernels: clock.kernels.load(Ordering::Acquire),
        }
    }

    /// Its number; never 0.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Whether the moment of this number lasts; 0: there was none.
    #[inline(always)]
    pub fn is_present(number: u64) -> bool {
        number == clock().newest.load(Ordering::Acquire)
    }

    /// Tells those with other kernels apart.
    pub fn kernels(self) -> u64 {
        self.kernels
    }
}

/// Something has changed, in any runtime of the process, that decides about launches
/// which are never checked. (To be called also where a stream begins to be captured.)
pub fn moment_over() {
    clock().newest.fetch_add(1, Ordering::AcqRel);
}

/// A kernel was added or is gone: its handle may come again as that of another.
pub(crate) fn kernels_changed() {
    clock().kernels.fetch_add(1, Ordering::AcqRel);
    moment_over();
}

/// Tests run beside each other in one process, and nearly each of them ends moments. One
/// that says what happens *while* a moment lasts has a clock of its own.
#[cfg(test)]
pub(crate) mod of_one_test {
    use crate::moment::{Clock, OF_THE_PROCESS};
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    thread_local! {
        static OWN: Cell<Option<&'static Clock>> = const { Cell::new(None) };
    }

    /// The calling thread's moments end only by what it does itself from now on. They are
    /// none of those of an earlier test that ran in this thread.
    pub fn ends_moments_alone() {
        const APART: u64 = 1 << 32;
        static CLOCKS: AtomicU64 = AtomicU64::new(1);
        let first = CLOCKS.fetch_add(1, Ordering::Relaxed) * APART;
        OWN.set(Some(Box::leak(Box::new(Clock::new(first)))));
    }

    pub(super) fn clock() -> &'static Clock {
        OWN.get().unwrap_or(&OF_THE_PROCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_end_and_kernels_of_an_earlier_one_may_be_gone() {
        of_one_test::ends_moments_alone();
        assert!(!Moment::is_present(0));
        let first = Moment::now();
        assert!(Moment::is_present(first.number()));
        assert_eq!(Moment::now().kernels(), first.kernels());
        moment_over();
        assert!(!Moment::is_present(first.number()));
        kernels_changed();
        assert_ne!(Moment::now().kernels(), first.kernels());
    }
}
