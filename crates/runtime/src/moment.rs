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

/// The newest moment, in a line of the cache of its own.
#[repr(align(64))]
struct Line(AtomicU64);

static NEWEST: Line = Line(AtomicU64::new(1));
/// Changes with the kernels that there are, before `NEWEST` does.
static KERNELS: AtomicU64 = AtomicU64::new(1);

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
    /// None that there was.
    pub const NEVER: Moment = Moment {
        number: 0,
        kernels: 0,
    };

    /// The present one.
    pub fn now() -> Moment {
        let number = NEWEST.0.load(Ordering::Acquire);
        Moment {
            number,
            kernels: KERNELS.load(Ordering::Acquire),
        }
    }

    /// Whether it lasts.
    #[inline]
    pub fn lasts(self) -> bool {
        self.number == NEWEST.0.load(Ordering::Acquire)
    }

    /// Whether there are the same kernels.
    pub fn has_kernels_of(self, other: Moment) -> bool {
        self.kernels == other.kernels
    }
}

/// Something has changed, in any runtime of the process, that decides about launches
/// which are never checked. (To be called also where a stream begins to be captured.)
pub fn moment_over() {
    NEWEST.0.fetch_add(1, Ordering::AcqRel);
}

/// A kernel was added or is gone: its handle may come again as that of another.
pub(crate) fn kernels_changed() {
    KERNELS.fetch_add(1, Ordering::AcqRel);
    moment_over();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_end_and_kernels_of_an_earlier_one_may_be_gone() {
        assert!(!Moment::NEVER.lasts());
        let first = Moment::now();
        moment_over();
        assert!(!first.lasts());
        kernels_changed();
        assert!(!Moment::now().has_kernels_of(first));
    }
}
