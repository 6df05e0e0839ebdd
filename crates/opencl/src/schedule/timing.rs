//! How long scans take.

use crate::canaries::contexts::Context;
use crate::platform::call;
use crate::platform::events::COMPLETE;
use crate::schedule::jobs::By;
use crate::sys::*;
use heap::choice::{Checker, Class};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The time of a scan, from the end of the kernel on.
pub struct Timing {
    pub class: Class,
    pub checker: Checker,
    /// Of the calls that enqueue it.
    pub enqueuing: Duration,
    pub enqueued: Instant,
    /// When the kernel ended, according to the platform.
    pub ended: Arc<OnceLock<Instant>>,
}

impl Timing {
    /// How long the scan took that is now over; `None` if that is not known.
    pub fn taken(&self, now: Instant, by: By) -> Option<Duration> {
        // A waiting thread may learn of the scan's end before the platform
        // reports the kernel's: then the time includes the kernel's own, for
        // either checker.
        let from = match (by, self.ended.get()) {
            (By::Platform, Some(ended)) => (*ended).max(self.enqueued),
            (By::Platform, None) => return None,
            (By::Waiter, _) => self.enqueued,
        };
        Some(self.enqueuing + now.saturating_duration_since(from))
    }

    /// Records the scan's time in the context.
    pub fn note(&self, context: &Context, now: Instant, by: By) {
        if let Some(taken) = self.taken(now, by) {
            context.measured(self.class, self.checker, taken);
        }
    }
}

/// When the command of an event ends.
pub fn ending(event: cl_event) -> Arc<OnceLock<Instant>> {
    let ended = Arc::new(OnceLock::new());
    let data = Arc::into_raw(ended.clone()).cast_mut().cast::<c_void>();
    if call!(clSetEventCallback(event, COMPLETE, Some(stamp), data)) != CL_SUCCESS {
        // SAFETY: the platform did not take it.
        drop(unsafe { Arc::from_raw(data.cast::<OnceLock<Instant>>()) });
    }
    ended
}

unsafe extern "C" fn stamp(_event: cl_event, _status: cl_int, data: *mut c_void) {
    // SAFETY: the data that was passed with this function, which is called
    // once.
    let ended = unsafe { Arc::from_raw(data.cast::<OnceLock<Instant>>()) };
    let _ = ended.set(Instant::now());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    #[test]
    fn a_scan_is_timed_from_the_end_of_its_kernel() {
        let fake = Fake::new();
        let event = fake.event(1);
        let timing = Timing {
            class: Class::of(false, 1, 64),
            checker: Checker::Host,
            enqueuing: Duration::from_secs(1),
            enqueued: Instant::now(),
            ended: ending(event),
        };
        let second = Duration::from_secs(1);
        let now = timing.enqueued + 10 * second;
        assert_eq!(
            timing.taken(now, By::Platform),
            None,
            "the kernel has not ended"
        );
        assert_eq!(timing.taken(now, By::Waiter), Some(11 * second));
        fake.end(event, 0);
        let taken = timing.taken(now, By::Platform).unwrap();
        assert!(taken > 10 * second && taken <= 11 * second, "{taken:?}");
        // A kernel that had ended before the scan was enqueued.
        let late = Timing {
            enqueued: timing.enqueued + 5 * second,
            ..timing
        };
        assert_eq!(late.taken(now, By::Platform), Some(6 * second));
    }
}
