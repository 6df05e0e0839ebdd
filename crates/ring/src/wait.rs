//! How a side waits: it spins for a short time that adapts, then sleeps on a
//! bell in slices.
//!
//! A futex is not told that the other process died. After each slice, and each
//! time that it is woken without cause, the waiting side therefore asks the
//! kernel whether the peer is still there. A process that dies is noticed at
//! once if it could say so (a side that is dropped rings), else within
//! [`LAST_SLICE`]; an idle connection costs five such questions a second. A
//! futex and descriptors cannot be waited for together without a thread or a
//! ring of io_uring for each connection, which would cost more than this.
//!
//! A hostile peer can end every sleep at once. After [`CAUSELESS`] sleeps in a
//! row without cause, the waiting side sleeps [`PAUSE`] at a time where the
//! peer cannot wake it.

use crate::bell::{self, Bell, Slept};
use crate::error::Error;
use crate::frames::Progress;
use crate::peer::{Peer, timespec};
use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest time to spin, unless [`Spin::set_limit`] says otherwise: about what
/// it costs to sleep and to be woken, several times over.
pub const SPIN: Duration = Duration::from_micros(50);
/// Shortest time to spin, so that a peer which became quick is noticed.
const SPIN_LEAST: Duration = Duration::from_micros(1);
/// Looks between two questions for the time.
const LOOKS: u32 = 16;
/// The first slice of a sleep.
const FIRST_SLICE: Duration = Duration::from_millis(20);
/// The longest slice; each is twice as long as the one before.
pub const LAST_SLICE: Duration = Duration::from_millis(200);
/// How many sleeps in a row may end without cause.
const CAUSELESS: u32 = 64;
/// How long to sleep where the peer cannot wake.
const PAUSE: Duration = Duration::from_millis(1);

/// A bell in the shared memory.
pub(crate) struct Futex<'m>(pub &'m AtomicU32);

impl Bell for Futex<'_> {
    type Time = Duration;

    fn load(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn store(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn fence(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    fn sleep(&self, time: Duration) -> Slept {
        // Without the flag PRIVATE: the word is shared between processes.
        let flags = futex::Flags::empty();
        match futex::wait(self.0, flags, bell::ASLEEP, Some(&timespec(time))) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Slept::Woken,
            Err(Errno::TIMEDOUT) => Slept::TimedOut,
            Err(errno) => Slept::Failed(errno.raw_os_error()),
        }
    }

    fn wake(&self) {
        // It fails only if the word is not mapped.
        let _ = futex::wake(self.0, futex::Flags::empty(), 1);
    }
}

/// Why a wait should end, besides what it waits for.
#[derive(Debug)]
pub(crate) struct Link {
    pub peer: Peer,
    pub interrupted: AtomicBool,
}

impl Link {
    fn check(&self) -> Result<(), Error> {
        match self.peer.is_gone()? {
            true => Err(Error::Gone),
            false => Ok(()),
        }
    }
}

/// How long a side spins: twice as long as the longest of its recent waits, if
/// that is within the limit. Waits that are longer halve it.
#[derive(Debug)]
pub struct Spin {
    limit: Duration,
    current: Duration,
}

impl Spin {
    pub(crate) fn new() -> Spin {
        // Where there is one processor, the peer cannot act while we spin.
        let alone = std::thread::available_parallelism().is_ok_and(|n| n.get() == 1);
        let limit = if alone { Duration::ZERO } else { SPIN };
        Spin {
            limit,
            current: limit,
        }
    }

    /// The longest time to spin; zero: sleep at once.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
        self.current = limit;
    }

    fn learn(&mut self, waited: Duration) {
        let least = SPIN_LEAST.min(self.limit);
        self.current = match waited <= self.limit {
            true => self.current.max(2 * waited).min(self.limit),
            false => (self.current / 2).max(least),
        };
    }

    /// Looks until there is an answer or the time is over.
    fn until(
        &self,
        start: Instant,
        ready: &mut impl FnMut() -> Result<Progress, Error>,
    ) -> Result<bool, Error> {
        if self.current.is_zero() {
            return Ok(false);
        }
        loop {
            for _ in 0..LOOKS {
                if ready()? == Progress::Ready {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= self.current {
                return Ok(false);
            }
        }
    }
}

/// Waits until `ready` says [`Progress::Ready`].
///
/// # Errors
///
/// Those of `ready`; the time is over; the peer is gone; someone in this
/// process interrupted.
pub(crate) fn wait(
    spin: &mut Spin,
    bell: &Futex<'_>,
    link: &Link,
    timeout: Option<Duration>,
    mut ready: impl FnMut() -> Result<Progress, Error>,
) -> Result<(), Error> {
    let start = Instant::now();
    let result = match spin.until(start, &mut ready) {
        Ok(true) => Ok(()),
        Ok(false) => asleep(bell, link, start, timeout, &mut ready),
        Err(error) => Err(error),
    };
    spin.learn(start.elapsed());
    result
}

fn asleep(
    bell: &Futex<'_>,
    link: &Link,
    start: Instant,
    timeout: Option<Duration>,
    ready: &mut impl FnMut() -> Result<Progress, Error>,
) -> Result<(), Error> {
    let mut slice = FIRST_SLICE;
    let mut causeless = 0;
    loop {
        let mut left = slice;
        if let Some(timeout) = timeout {
            let rest = timeout.saturating_sub(start.elapsed());
            if rest.is_zero() {
                return Err(Error::TimedOut(timeout));
            }
            left = left.min(rest);
        }
        let mut moved = false;
        let mut look = || {
            // Stored before the bell is rung, so it is seen here or ends the
            // sleep.
            if link.interrupted.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let progress = ready()?;
            moved |= progress == Progress::Moved;
            Ok((progress == Progress::Ready).then_some(()))
        };
        let slept = match bell::sleep(bell, left, &mut look) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(slept)) => slept,
            Err(error) => return Err(error),
        };
        if let Err(error) = link.check() {
            // What the peer sent before it ended still counts.
            return match look()? {
                Some(()) => Ok(()),
                None => Err(error),
            };
        }
        match slept {
            _ if moved => causeless = 0,
            Slept::TimedOut => {
                causeless = 0;
                slice = (2 * slice).min(LAST_SLICE);
            }
            Slept::Woken if causeless < CAUSELESS => causeless += 1,
            Slept::Woken => {
                link.peer.wait_gone(PAUSE.min(left))?;
            }
            Slept::Failed(errno) => {
                let errno = Errno::from_raw_os_error(errno);
                return Err(Error::Futex(errno));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_follows_the_waits() {
        let mut spin = Spin::new();
        spin.set_limit(SPIN);
        let micros = Duration::from_micros;
        for _ in 0..20 {
            spin.learn(Duration::from_secs(1));
        }
        assert_eq!(spin.current, SPIN_LEAST, "long waits are slept");
        spin.learn(micros(8));
        assert_eq!(spin.current, micros(16), "short ones are not");
        spin.learn(micros(2));
        assert_eq!(spin.current, micros(16));
        spin.learn(micros(40));
        assert_eq!(spin.current, SPIN, "within the limit");
        spin.learn(micros(51));
        assert_eq!(spin.current, SPIN / 2);
        spin.set_limit(Duration::ZERO);
        spin.learn(micros(0));
        spin.learn(micros(10));
        assert_eq!(spin.current, Duration::ZERO);
    }
}
