//! Quiescence: the driver calls that wait for it are made while no kernel runs.
//!
//! A driver loads and unloads modules, unregisters host memory, makes streams and
//! gives kernels more local memory only when all kernels of the context are over. Until then
//! the calls of all other threads wait in the driver, too, launches and copies
//! alike, and so would the copy that ends an endless kernel (H200, driver 580).
//! So none of these calls is made here before the kernels are over.
//!
//! A [`Waiter`] needs quiescence, and tries again until it has it. As long as
//! there is one, each stream takes one piece of work at a time. Each try closes
//! all streams for a short while, a *window*; it succeeds if they are all idle
//! before the window ends. The windows of a waiter get longer, up to [`LONGEST`],
//! and between two of them there is as much time: a tenant that loads code beside
//! one with long kernels takes half of the device from the others at most.
//! Kernels that outlast the windows for longer than the budget are ended,
//! because nobody could load code beside an endless kernel. What was put into a stream
//! before has the budget for each piece, as far as the marks tell them apart
//! ([`crate::progress`]), and [`QUEUE`] budgets together.
//!
//! What is only to be dropped has time: such a waiter is *patient*, keeps its windows
//! short and far apart, and ends nobody's kernels.

use crate::log;
use crate::partition::{Stopper, Why};
use crate::streams::{Lent, Streams};
use driver::DriverError;
use driver::calls::{Context, Stream};
use parking_lot::{ArcRwLockReadGuard, Mutex, RawRwLock, RwLock, RwLockWriteGuard};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The first window of a waiter.
const FIRST: Duration = Duration::from_millis(2);
/// The longest window.
const LONGEST: Duration = Duration::from_millis(250);
/// How long to poll the streams without a pause.
const SPIN: Duration = Duration::from_micros(100);
/// The pause after that.
const PAUSE: Duration = Duration::from_micros(50);
/// Budgets in all for what was put into a stream before somebody waited.
const QUEUE: u32 = 4;

/// Bytes of local memory for each thread that contexts have room for at first
/// (cuda.h, `CU_LIMIT_STACK_SIZE`: 1 KiB on all devices).
const LOCAL: u64 = 1024;

/// How work in a stream gets on: a number that changes whenever some is over, and how many
/// pieces are over when it changes next. `None`: there is none, or nobody can tell.
pub(crate) type Standing = Box<dyn Fn(&Stream) -> Option<(u64, u64)> + Send>;

/// A stream of a tenant.
struct Watched {
    stream: Weak<Lent>,
    stopper: Weak<Stopper>,
    standing: Standing,
    outlasts: Option<Outlasts>,
}

/// How long a stream has not been idle at the ends of windows.
#[derive(Clone, Copy)]
struct Outlasts {
    /// The end of the first window since it was last seen idle.
    first: Instant,
    /// That of the first one since some of its work was over.
    since: Instant,
    /// What was over then.
    done: u64,
}

impl Outlasts {
    /// At the end of another window, when this is over of its work.
    fn look(before: Option<Outlasts>, now: Instant, done: u64) -> Outlasts {
        match before {
            Some(before) if before.done == done => before,
            before => Outlasts {
                first: before.map_or(now, |before| before.first),
                since: now,
                done,
            },
        }
    }

    /// Whether its kernels are ended. `pieces` is how many of its pieces of work are over
    /// when `done` changes next.
    fn is_too_long(&self, now: Instant, pieces: u64, budget: Duration) -> bool {
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
        let limit = budget.saturating_mul(pieces);
        now.duration_since(self.since) > limit
            || now.duration_since(self.first) > budget.saturating_mul(QUEUE)
    }
}

/// Which streams there are, and who waits until all are idle.
pub(crate) struct Quiet {
    /// Held for reading while something is put into a stream.
    putting: Arc<RwLock<()>>,
    waiters: AtomicU32,
    watched: Mutex<Vec<Watched>>,
    /// What is dropped at the next quiescence.
    discarded: Mutex<Vec<Box<dyn Send>>>,
    /// Bytes of local memory that there is room for.
    local: Mutex<u64>,
    budget: Option<Duration>,
}

/// Something that can be done only while no kernel runs.
pub(crate) struct Waiter {
    quiet: Arc<Quiet>,
    window: Duration,
    not_before: Option<Instant>,
    is_patient: bool,
}

/// A guard: no kernel runs, and none is started while it lives.
pub(crate) struct Quiescent<'q> {
    quiet: &'q Quiet,
    _closed: RwLockWriteGuard<'q, ()>,
}

/// Something is being put into a stream.
pub(crate) struct Putting {
    _open: ArcRwLockReadGuard<RawRwLock, ()>,
}

impl Quiet {
    /// With this budget: how long kernels may keep others from loading; `None`:
    /// for ever.
    pub(crate) fn new(budget: Option<Duration>) -> Quiet {
        Quiet {
            putting: Arc::new(RwLock::new(())),
            waiters: AtomicU32::new(0),
            watched: Mutex::default(),
            discarded: Mutex::default(),
            local: Mutex::new(LOCAL),
            budget,
        }
    }

    /// Counts a stream among those in which kernels run.
    pub(crate) fn watch(&self, stream: &Arc<Lent>, stopper: &Arc<Stopper>, standing: Standing) {
        self.watched.lock().push(Watched {
            stream: Arc::downgrade(stream),
            stopper: Arc::downgrade(stopper),
            standing,
            outlasts: None,
        });
    }

    /// To be held while something is put into a stream.
    pub(crate) fn put(&self) -> Putting {
        Putting {
            _open: self.putting.read_arc(),
        }
    }

    /// Waits for this time at most until whatever is being put into a stream now has
    /// been put in; whether it has.
    pub(crate) fn let_pass(&self, time: Duration) -> bool {
        self.putting.try_write_for(time).is_some()
    }

    /// Whether there is a waiter.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Acquire) > 0
    }

    /// Drops what cannot be dropped while kernels run, later.
    pub(crate) fn discard(&self, what: Box<dyn Send>) {
        self.discarded.lock().push(what);
    }

    /// Whether something is to be dropped at the next quiescence.
    pub(crate) fn has_discarded(&self) -> bool {
        !self.discarded.lock().is_empty()
    }

    /// Whether all streams are idle. Notes which are not.
    fn are_idle(&self) -> Result<bool, DriverError> {
        let mut are_idle = true;
        let mut error = None;
        self.watched.lock().retain_mut(|watched| {
            let Some(stream) = watched.stream.upgrade() else {
                return false;
            };
            match stream.is_idle() {
                Ok(true) => watched.outlasts = None,
                Ok(false) => are_idle = false,
                Err(failed) => error = Some(failed),
            }
            true
        });
        error.map_or(Ok(are_idle), Err)
    }

    /// At the end of a window after which not all streams were idle: ends the kernels
    /// of those that have outlasted the windows for longer than the budget.
    fn end_long(&self, context: &Context) {
        let now = Instant::now();
        let mut long = Vec::new();
        for watched in self.watched.lock().iter_mut() {
            let stream = watched.stream.upgrade();
            let standing = stream.and_then(|stream| (watched.standing)(&stream));
            let Some((done, pieces)) = standing else {
                watched.outlasts = None;
                continue;
            };
            let outlasts = Outlasts::look(watched.outlasts, now, done);
            watched.outlasts = Some(outlasts);
            if self
                .budget
                .is_some_and(|budget| outlasts.is_too_long(now, pieces, budget))
            {
                long.extend(watched.stopper.upgrade());
            }
        }
        for stopper in long {
            match stopper.stop(context, Why::Load) {
                Ok(true) => log::line(
                    "warning: kernels of a tenant ran beyond --kernel-time while another one waited to load code; they are ended",
                ),
                Ok(false) => {}
                Err(error) => log::line(&format!(
                    "error: kernels of a tenant that run for too long cannot be ended: {error}"
                )),
            }
        }
    }
}

impl Waiter {
    /// One that waits from now on.
    pub(crate) fn new(quiet: &Arc<Quiet>) -> Waiter {
        quiet.waiters.fetch_add(1, Ordering::AcqRel);
        Waiter {
            quiet: Arc::clone(quiet),
            window: FIRST,
            not_before: None,
            is_patient: false,
        }
    }

    /// One for which no kernel is ended.
    pub(crate) fn patient(quiet: &Arc<Quiet>) -> Waiter {
        let mut waiter = Waiter::new(quiet);
        waiter.is_patient = true;
        waiter
    }

    /// Tries once: `None`: later. Waits for [`LONGEST`] at most.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn try_enter<'q>(
        &mut self,
        quiet: &'q Quiet,
        context: &Context,
    ) -> Result<Option<Quiescent<'q>>, DriverError> {
        if self.not_before.is_some_and(|time| Instant::now() < time) {
            return Ok(None);
        }
        let closed = quiet.putting.write();
        let start = Instant::now();
        loop {
            if quiet.are_idle()? {
                let quiescent = Quiescent {
                    quiet,
                    _closed: closed,
                };
                let discarded = std::mem::take(&mut *quiet.discarded.lock());
                drop(discarded);
                return Ok(Some(quiescent));
            }
            match start.elapsed() {
                waited if waited >= self.window => break,
                waited if waited < SPIN => std::hint::spin_loop(),
                _ => std::thread::sleep(PAUSE),
            }
        }
        drop(closed);
        if self.is_patient {
            self.not_before = Some(Instant::now() + LONGEST);
            return Ok(None);
        }
        quiet.end_long(context);
        self.not_before = Some(Instant::now() + self.window);
        self.window = (2 * self.window).min(LONGEST);
        Ok(None)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.quiet.waiters.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Quiescent<'_> {
    /// Makes more streams that can be lent.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn make_streams(
        &self,
        streams: &Streams,
        context: &Context,
    ) -> Result<(), DriverError> {
        streams.make_more(context)
    }

    /// Has room for kernels with so many bytes of local memory for each thread.
    ///
    /// # Errors
    ///
    /// There is not as much memory.
    pub(crate) fn reserve_local(&self, context: &Context, bytes: u64) -> Result<(), DriverError> {
        let mut local = self.quiet.local.lock();
        if bytes > *local {
            context.reserve_local(bytes)?;
            *local = bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_secs(5);

    /// At the end of which window kernels are ended. `looks` are the ends of windows in
    /// milliseconds, with what is over then; `apart` is how many pieces a mark stands for.
    fn ended(looks: &[(u64, u64)], apart: u64) -> Option<usize> {
        let start = Instant::now();
        let mut outlasts = None;
        looks.iter().position(|(millis, done)| {
            let now = start + Duration::from_millis(*millis);
            let known = Outlasts::look(outlasts, now, *done);
            outlasts = Some(known);
            known.is_too_long(now, apart, BUDGET)
        })
    }

    #[test]
    fn a_kernel_has_the_budget_and_a_queue_has_it_for_each() {
        assert_eq!(ended(&[(0, 7), (4_000, 7), (5_000, 7)], 1), None);
        assert_eq!(ended(&[(0, 7), (4_000, 7), (5_001, 7)], 1), Some(2));
        // Sixteen pieces are over when a mark is.
        assert_eq!(ended(&[(0, 7), (10_000, 7), (20_000, 7)], 16), None);
        assert_eq!(ended(&[(0, 7), (20_001, 7)], 16), Some(1));
        // Kernels of three seconds each, and no more of them than four budgets.
        let queue: Vec<_> = (0..30).map(|count| (3_000 * count, count)).collect();
        assert_eq!(ended(&queue, 1), Some(7));
        // A budget without end.
        assert!(!Outlasts::look(None, Instant::now(), 0).is_too_long(
            Instant::now(),
            u64::MAX,
            Duration::MAX
        ));
    }
}
