//! Which streams get on, and the end of kernels that keep others from it.
//!
//! A driver tells whether a stream is empty, and not how much of its work is over.
//! So events stand between pieces of work, *marks*: few where work is short, since
//! a mark costs the host and the device about a microsecond, and many where it is
//! long. A thread looks at the marks of all streams. From them follows how much each
//! tenant has in flight ([`crate::turns`]), whether what stands still runs or waits
//! ([`crate::trials`]), and whose kernels are ended ([`crate::budget`]).
//!
//! Who waits until all streams are idle looks at the marks, too: it sees whether a
//! kernel runs for long, or many follow one another ([`crate::quiet`]).
//!
//! On the CPU device, tenants have equal parts of the processors, so no thread
//! looks at the marks unless a time is asked for.

use crate::budget::{Budget, Known, Role, Seen, Work};
use crate::fair::{MARKED, Pieces, Share};
use crate::log;
use crate::partition::{Stopper, Why};
use crate::quiet::Quiet;
use crate::streams::Lent;
use crate::trials::Trials;
use crate::turns::{Turn, Turns};
use crate::weights::Weights;
use driver::DriverError;
use driver::calls::{Context, Event, Stream};
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often all streams are looked at, if the budget is not much shorter.
const PERIOD: Duration = Duration::from_millis(100);
/// As long as several tenants have work: who began first is known as exactly.
const BESIDE: Duration = Duration::from_millis(10);
/// Looks within one budget, at least.
const LOOKS: u32 = 10;
/// How often they are looked at while tenants are held back.
const HELD: Duration = Duration::from_millis(1);
/// How long all work of a bounded tenant stands still before it may put one more
/// piece in, if that is less than a quarter of the budget.
const PATIENCE: Duration = Duration::from_secs(1);
/// Who was looked at so short a time ago was looked at all the time.
const EXACT: Duration = Duration::from_millis(3);

/// Marks of one stream that are not known to be over, at most: with the work
/// itself they must fit into the driver's queue (`crate::quota::QUEUED`).
const MARKS: usize = 64;

/// Streams of tenants, and whether their work gets on.
pub(crate) struct Progress {
    /// How long work may stand still; `None`: for ever.
    limit: Option<Duration>,
    watched: Mutex<Vec<Watched>>,
    /// How many streams there were.
    made: AtomicU64,
    turns: Arc<Turns>,
}

/// A stream.
struct Watched {
    stream: Weak<Lent>,
    marks: Arc<Marks>,
    tenant: u64,
    /// `None`: it has no kernels ([`Role::Newcomer`]).
    stopper: Option<Weak<Stopper>>,
}

/// The marks in one stream.
pub(crate) struct Marks {
    number: u64,
    /// That of the tenant; `None`: it has none.
    turn: Option<Arc<Turn>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order of the stream.
    pending: VecDeque<Mark>,
    spare: Vec<Event>,
    /// When the first piece of work behind the last mark was put in.
    open: Option<Instant>,
    /// Pieces since the stream was idle, and since the last mark.
    puts: u64,
    unmarked: u64,
    /// What is behind the last mark.
    behind: Pieces,
    /// Changes whenever work is over.
    done: u64,
    /// Nothing was over between two looks.
    is_slow: bool,
    /// When it was last looked at, and when some was over then.
    looked: Option<Instant>,
    moved: Option<Instant>,
}

/// An event between two pieces of work.
struct Mark {
    event: Event,
    /// When the first piece between this mark and the one before was put in.
    put: Instant,
    /// The pieces between the two.
    pieces: Pieces,
}

/// What was over at a look.
#[derive(Default)]
struct Over {
    pieces: Pieces,
    /// When the first of them was put in.
    first: Option<Instant>,
}

impl Over {
    fn add(&mut self, pieces: Pieces, put: Instant) {
        self.pieces.join(pieces);
        self.first.get_or_insert(put);
    }
}

impl State {
    /// Whether a mark belongs behind what is in the stream. Short kernels get one
    /// for 16, and those that come first one for 1, 1, 2, 4 and 8, or for 8 and 8 where the
    /// tenant's are known to be short. Long ones get one each, unless there are very many
    /// of them. Where the tenant is bounded, they are so far `apart`.
    fn needs_mark(&self, apart: Option<u64>, is_short: bool) -> bool {
        if self.open.is_none() || self.pending.len() >= MARKS {
            return false;
        }
        let apart = match self.pending.len() {
            _ if !self.is_slow => apart.unwrap_or(MARKED),
            0..16 => 1,
            16..32 => 4,
            _ => 16,
        };
        let is_early = self.puts <= 16 && self.puts.is_power_of_two();
        self.unmarked >= apart || (is_early && (!is_short || self.puts == 8))
    }

    fn over(&mut self, mark: Mark, over: &mut Over) {
        over.add(mark.pieces, mark.put);
        self.spare.push(mark.event);
        self.done += 1;
    }

    /// What is in the stream now; what is over is told.
    fn look(
        &mut self,
        stream: &Stream,
        turn: Option<&Turn>,
    ) -> Result<Option<Instant>, DriverError> {
        let mut over = Over::default();
        let first = self.take_over(stream, &mut over);
        let now = Instant::now();
        let looked = self.looked.replace(now);
        if let Some(put) = over.first {
            let began = self.moved.replace(now).map_or(put, |moved| moved.max(put));
            let is_exact = looked.is_some_and(|looked| now - looked.max(began.min(now)) < EXACT);
            if let Some(turn) = turn {
                let took = now.saturating_duration_since(began);
                turn.over(over.pieces, Some(took), is_exact, now);
            }
        }
        first
    }

    fn take_over(
        &mut self,
        stream: &Stream,
        over: &mut Over,
    ) -> Result<Option<Instant>, DriverError> {
        let before = self.done;
        while let Some(mark) = self.pending.front() {
            if !mark.event.is_over()? {
                break;
            }
            if let Some(mark) = self.pending.pop_front() {
                self.over(mark, over);
            }
        }
        if stream.is_idle()? {
            while let Some(mark) = self.pending.pop_front() {
                self.over(mark, over);
            }
            if let Some(put) = self.open.take() {
                over.add(std::mem::take(&mut self.behind), put);
            }
            (self.puts, self.unmarked) = (0, 0);
            self.done += 1;
            self.is_slow = false;
            return Ok(None);
        }
        self.is_slow = self.done == before;
        let first = self.pending.front().map(|mark| mark.put).or(self.open);
        Ok(Some(first.unwrap_or_else(Instant::now)))
    }
}

impl Marks {
    /// A piece of work of this share is put into the stream next.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn put(&self, at: (&Context, &Stream), share: Share) -> Result<(), DriverError> {
        self.put_some(at, std::iter::once(share))?;
        if let Some(turn) = &self.turn {
            turn.put(share);
        }
        Ok(())
    }

    /// Pieces of these shares, which their tenant's turn knows of, are put into the stream
    /// next: as many as come before the next mark. How many these are: at least one, if
    /// there are any.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn put_some(
        &self,
        (context, stream): (&Context, &Stream),
        shares: impl IntoIterator<Item = Share>,
    ) -> Result<usize, DriverError> {
        let turn = self.turn.as_ref();
        let (apart, is_short) = (
            turn.and_then(|turn| turn.apart()),
            turn.is_some_and(|turn| turn.is_short()),
        );
        let mut state = self.state.lock();
        let mut count = 0;
        for share in shares {
            if state.needs_mark(apart, is_short)
                && let Some(put) = state.open
            {
                if count > 0 {
                    break;
                }
                let event = match state.spare.pop() {
                    Some(event) => event,
                    None => context.event(false)?,
                };
                event.record(stream)?;
                state.open = None;
                let pieces = std::mem::take(&mut state.behind);
                state.pending.push_back(Mark { event, put, pieces });
                state.unmarked = 0;
            }
            state.open.get_or_insert_with(Instant::now);
            state.puts += 1;
            state.unmarked += 1;
            state.behind.add(share);
            count += 1;
        }
        Ok(count)
    }

    /// Looks what is over; whether all that was left is.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn look(&self, stream: &Stream) -> Result<bool, DriverError> {
        let mut state = self.state.lock();
        // (A mark is behind what was open before.)
        if state.open.is_none() && state.pending.is_empty() {
            return Ok(false);
        }
        let first = state.look(stream, self.turn.as_deref())?;
        Ok(first.is_none())
    }

    /// How work in the stream gets on: a number that changes whenever some is over, and
    /// how many pieces are over when it changes next. `None`: there is none.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn standing(&self, stream: &Stream) -> Result<Option<(u64, u64)>, DriverError> {
        let mut state = self.state.lock();
        let first = state.look(stream, self.turn.as_deref())?;
        let next = state
            .pending
            .front()
            .map_or(state.behind, |mark| mark.pieces);
        Ok(first.map(|_| (state.done, next.count().max(1))))
    }
}

impl Drop for Marks {
    /// What is still in the stream is waited for by the tenant's default stream.
    fn drop(&mut self) {
        let Some(turn) = &self.turn else { return };
        let state = self.state.get_mut();
        let mut pieces = state.behind;
        state
            .pending
            .iter()
            .for_each(|mark| pieces.join(mark.pieces));
        turn.over(pieces, None, false, Instant::now());
    }
}

impl Progress {
    /// Of a device on which work may stand still for so long.
    pub(crate) fn new(limit: Option<Duration>) -> Progress {
        Progress {
            limit,
            watched: Mutex::default(),
            made: AtomicU64::new(0),
            turns: Turns::new(limit.map(|limit| (limit / 4).min(PATIENCE))),
        }
    }

    /// The turn of a tenant of this weight, which all of its streams have in common.
    pub(crate) fn turn(&self, stopper: &Stopper, weight: u32) -> Arc<Turn> {
        self.turns.turn(stopper.number(), weight)
    }

    /// Looks at a stream of a tenant from now on.
    pub(crate) fn watch(
        &self,
        stream: &Arc<Lent>,
        stopper: &Arc<Stopper>,
        turn: &Arc<Turn>,
    ) -> Arc<Marks> {
        let whose = (stopper.number(), Some(Arc::downgrade(stopper)));
        self.add(stream, whose, Some(Arc::clone(turn)))
    }

    /// Looks at a stream from now on in which memory is cleared for a tenant that
    /// comes.
    pub(crate) fn watch_newcomer(&self, stream: &Arc<Lent>) -> Arc<Marks> {
        // (Those of tenants count from 1 on.)
        self.add(stream, (0, None), None)
    }

    fn add(
        &self,
        stream: &Arc<Lent>,
        (tenant, stopper): (u64, Option<Weak<Stopper>>),
        turn: Option<Arc<Turn>>,
    ) -> Arc<Marks> {
        let marks = Arc::new(Marks {
            number: self.made.fetch_add(1, Ordering::Relaxed),
            turn,
            state: Mutex::default(),
        });
        let mut watched = self.watched.lock();
        // (Those that are gone go here where nobody looks.)
        watched.retain(|watched| watched.stream.strong_count() > 0);
        watched.push(Watched {
            stream: Arc::downgrade(stream),
            marks: Arc::clone(&marks),
            tenant,
            stopper,
        });
        marks
    }

    /// All streams that there are.
    fn seen(&self, start: Instant) -> Vec<Seen> {
        let mut seen = Vec::new();
        self.watched.lock().retain(|watched| {
            let Some(stream) = watched.stream.upgrade() else {
                return false;
            };
            let stopper = watched.stopper.as_ref().map(Weak::upgrade);
            let role = match stopper {
                None => Role::Newcomer,
                Some(Some(stopper)) if stopper.stopped().is_none() => Role::Tenant,
                Some(_) => Role::Ended,
            };
            let mut state = watched.marks.state.lock();
            // The device's failure is noticed by who asks for something.
            let work = match state.look(&stream, watched.marks.turn.as_deref()) {
                Ok(Some(put)) => Work::Queued {
                    done: state.done,
                    since: put.saturating_duration_since(start),
                },
                Ok(None) | Err(_) => Work::Idle { done: state.done },
            };
            seen.push(Seen {
                tenant: watched.tenant,
                stream: watched.marks.number,
                work,
                role,
            });
            true
        });
        seen
    }

    /// Ends the kernels of a tenant.
    fn end(&self, tenant: u64, context: &Context) {
        let mut stopper = None;
        for watched in self.watched.lock().iter() {
            if watched.tenant == tenant {
                stopper = watched.stopper.as_ref().and_then(Weak::upgrade);
            }
        }
        match stopper.map(|stopper| stopper.stop(context, Why::Stall)) {
            Some(Ok(true)) => log::line(
                "warning: kernels of a tenant ran beyond --stall-time while the work of another one stood still; they are ended",
            ),
            Some(Err(error)) => log::line(&format!(
                "error: kernels of a tenant that keep others from running cannot be ended: {error}"
            )),
            Some(Ok(false)) | None => {}
        }
    }

    /// Whether there is anything to [keep](Self::keep).
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Gives tenants their turns, and ends kernels that keep others from running for
    /// longer than they may, for ever.
    pub(crate) fn keep(&self, context: &Context, quiet: &Quiet) {
        let Some(limit) = self.limit else {
            return;
        };
        if let Err(error) = context.make_current() {
            log::line(&format!(
                "error: kernels that keep others from running will not be ended: {error}"
            ));
            return;
        }
        let start = Instant::now();
        let (mut budget, mut trials) = (Budget::new(limit), Trials::new(limit));
        let mut weights = Weights::default();
        let (mut held_for, mut are_several) = (None, false);
        loop {
            let pause = match held_for {
                Some(_) => HELD,
                None if are_several => BESIDE,
                None => PERIOD,
            };
            std::thread::sleep(pause.min(limit / LOOKS));
            let (seen, now) = (self.seen(start), start.elapsed());
            let known = Known {
                held_for: trials.tenant(),
                runs: &|one| trials.is_runner(one),
                is_left: &|tenant| self.turns.is_left(tenant),
            };
            if let Some(tenant) = budget.look(now, &seen, &known) {
                self.end(tenant, context);
            }
            let before = held_for;
            let trial = trials.look(now, &seen, |one| budget.age(now, one));
            let busy = seen
                .iter()
                .filter(|one| matches!(one.work, Work::Queued { .. }));
            let busy: HashSet<u64> = busy.map(|one| one.tenant).collect();
            are_several = busy.len() > 1;
            let by_weight = weights.look(now, &self.turns.weighed(&busy));
            held_for = trial.or(by_weight);
            self.turns.settle(now, &busy, held_for);
            // Who is just putting something in may not have seen that it is held back.
            if held_for.is_some() && held_for != before && !quiet.let_pass(HELD) {
                if trial.is_some() {
                    trials.give_up(now);
                }
                held_for = None;
                self.turns.settle(now, &busy, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceChoice};

    fn open(stall: Option<Duration>) -> Device {
        Device::open(&DeviceChoice::Cpu(1), None, stall).unwrap()
    }

    /// How many marks stand in a stream after so many pieces of work, which are over
    /// by now.
    fn marks_after(device: &Device, puts: u32, is_slow: bool) -> usize {
        let stream = Arc::new(device.stream(false).unwrap());
        let marks = device.progress.watch_newcomer(&stream);
        marks.state.lock().is_slow = is_slow;
        for _ in 0..puts {
            marks.put((&device.context, &stream), Share::WHOLE).unwrap();
        }
        marks.state.lock().pending.len()
    }

    #[test]
    fn marks_are_few_where_work_is_short_and_never_too_many() {
        let device = open(Some(Duration::from_secs(1)));
        for (puts, short, long) in [
            (0, 0, 0),
            (1, 0, 0),
            (2, 1, 1),
            (3, 2, 2),
            (9, 4, 8),
            (17, 5, 16),
            (33, 6, 20),
            (81, 9, 32),
            (5000, MARKS, MARKS),
        ] {
            assert_eq!(marks_after(&device, puts, false), short, "{puts}");
            assert_eq!(marks_after(&device, puts, true), long, "{puts}");
        }
    }

    /// How many pieces are put in together, of so many that come at once; and how many
    /// marks stand between them then.
    fn runs(device: &Device, most: usize, is_short: bool) -> (Vec<usize>, usize) {
        let stream = Arc::new(device.stream(false).unwrap());
        let turns = Turns::new(Some(Duration::MAX));
        let turn = turns.turn(1, 1);
        if is_short {
            let one = Pieces::of([Share::WHOLE]);
            turn.over(one, Some(Duration::from_micros(5)), true, Instant::now());
        }
        let whose = (1, None);
        let marks = device.progress.add(&stream, whose, Some(turn));
        let (mut left, mut runs) = (most, Vec::new());
        while left > 0 {
            let shares = std::iter::repeat_n(Share::WHOLE, left);
            let at: (&Context, &Stream) = (&device.context, &stream);
            let run = marks.put_some(at, shares).unwrap();
            runs.push(run);
            left -= run;
        }
        let pending = marks.state.lock().pending.len();
        (runs, pending)
    }

    #[test]
    fn pieces_that_come_together_are_marked_as_those_that_come_apart() {
        let device = open(Some(Duration::from_secs(1)));
        for (most, is_short, expected) in [
            (0, false, &[][..]),
            (1, false, &[1]),
            (16, false, &[1, 1, 2, 4, 8]),
            (40, false, &[1, 1, 2, 4, 8, 16, 8]),
            (6, true, &[6]),
            (16, true, &[8, 8]),
            (40, true, &[8, 16, 16]),
        ] {
            let (runs, marks) = runs(&device, most, is_short);
            assert_eq!(runs, expected, "{most} {is_short}");
            assert_eq!(marks, runs.len().saturating_sub(1), "{most} {is_short}");
        }
        for puts in [1, 5, 17, 81] {
            let (_, marks) = runs(&device, puts, false);
            assert_eq!(marks, marks_after(&device, puts as u32, false), "{puts}");
        }
    }

    /// Who waits for each piece of its work has none in flight when it puts the next one
    /// in, whatever is expected of it.
    #[test]
    fn what_is_over_leaves_room_at_once() {
        let device = open(Some(Duration::from_secs(1)));
        let turns = Turns::new(Some(Duration::MAX));
        let (turn, other) = (turns.turn(1, 1), turns.turn(2, 1));
        assert!(
            turn.may_put(Share::WHOLE, true, Instant::now)
                && other.may_put(Share::WHOLE, true, Instant::now)
        );
        let stream = Arc::new(device.stream(false).unwrap());
        let whose = (1, None);
        let marks = device.progress.add(&stream, whose, Some(Arc::clone(&turn)));
        for _ in 0..3 {
            while turn.may_put(Share::WHOLE, true, Instant::now) {
                marks.put((&device.context, &stream), Share::WHOLE).unwrap();
            }
            while !stream.is_idle().unwrap() {
                std::thread::sleep(Duration::from_millis(30));
            }
            assert!(!turn.may_put(Share::WHOLE, true, Instant::now));
            assert!(marks.look(&stream).unwrap());
            assert!(turn.may_put(Share::WHOLE, true, Instant::now));
            // Nothing is left to look at.
            assert!(!marks.look(&stream).unwrap());
        }
    }

    #[test]
    fn what_is_over_shows_and_what_is_gone_is_forgotten() {
        let device = open(Some(Duration::from_secs(1)));
        let (progress, start) = (&device.progress, Instant::now());
        let stream = Arc::new(device.stream(false).unwrap());
        let marks = progress.watch_newcomer(&stream);
        let seen = progress.seen(start);
        assert_eq!(seen.len(), 1);
        assert!(matches!(seen[0].work, Work::Idle { .. }));
        assert_eq!(seen[0].role, Role::Newcomer);
        for _ in 0..20 {
            marks.put((&device.context, &stream), Share::WHOLE).unwrap();
        }
        while !stream.is_idle().unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = marks.state.lock().done;
        let work = progress.seen(start)[0].work;
        assert!(matches!(work, Work::Idle { .. }), "{work:?}");
        let state = marks.state.lock();
        assert!(state.done > before && state.pending.is_empty() && state.open.is_none());
        assert_eq!(state.spare.len(), 5);
        drop(state);
        drop(stream);
        assert_eq!(progress.seen(start).len(), 0);
    }
}
