//! Whose work is put into streams now, and whose waits.
//!
//! Each tenant has a [`Turn`], of which one word says what its next piece of work
//! is compared with. Who is alone reads that word and nothing else. The words are
//! written by who looks at all streams ([`crate::progress`]), and by a tenant that
//! had no work when it puts something in: the others are bounded from then on.

use crate::fair::{Account, Pieces, Share};
use crate::weights::Weighed;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What is asked of a tenant that puts something in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Rule {
    /// To say that it has work now.
    Asleep,
    /// Nothing: nobody else has work.
    Free,
    /// [What it has in flight](crate::fair) is bounded.
    Bounded,
    /// To wait: another one's work [is on trial](crate::trials), or it is another
    /// one's turn [by weight](crate::weights).
    Held,
}

/// The turn of a tenant.
pub(crate) struct Turn {
    tenant: u64,
    weight: u32,
    /// A [`Rule`].
    rule: AtomicU8,
    /// It had to wait when it last put something in.
    waits: AtomicBool,
    account: Mutex<Account>,
    stands: Mutex<Stands>,
    turns: Arc<Turns>,
}

/// Since when what a tenant has in flight stands still.
struct Stands {
    /// One of its pieces was over.
    moved: Instant,
    /// It had no room, and yet put one in.
    put: Instant,
}

/// The turns of all tenants.
pub(crate) struct Turns {
    /// How long all that a tenant has in flight stands still before it may put one
    /// more in, for each whole device that it has in flight; `None`: nobody waits for
    /// anybody.
    patience: Option<Duration>,
    state: Mutex<State>,
}

/// How long a tenant counts as one that has work when it has none any more: what
/// others put in while it rests would be before its next piece.
const REST: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    turns: Vec<Weak<Turn>>,
    /// Tenants that have work, or had some a short time ago: when they had.
    awake: HashMap<u64, Duration>,
    /// When all streams were last looked at.
    now: Duration,
    /// For whose sake all others are held back.
    held_for: Option<u64>,
}

impl State {
    /// Tells each tenant what is asked of it now.
    fn tell(&mut self) {
        let State {
            turns,
            awake,
            held_for,
            ..
        } = self;
        turns.retain(|turn| {
            let Some(turn) = turn.upgrade() else {
                return false;
            };
            let rule = match held_for {
                Some(tenant) if *tenant != turn.tenant => Rule::Held,
                _ if !awake.contains_key(&turn.tenant) => Rule::Asleep,
                _ if awake.len() > 1 => Rule::Bounded,
                _ => Rule::Free,
            };
            turn.rule.store(rule as u8, Ordering::Release);
            true
        });
    }
}

impl Turns {
    /// Of a device on which a tenant whose work stands still for so long may put one
    /// more piece in; `None`: nobody waits for anybody.
    pub(crate) fn new(patience: Option<Duration>) -> Arc<Turns> {
        Arc::new(Turns {
            patience,
            state: Mutex::default(),
        })
    }

    /// The turn of a tenant of this weight that has no work.
    pub(crate) fn turn(self: &Arc<Self>, tenant: u64, weight: u32) -> Arc<Turn> {
        let rule = match self.patience {
            None => Rule::Free,
            Some(_) => Rule::Asleep,
        };
        let now = Instant::now();
        let turn = Arc::new(Turn {
            tenant,
            weight,
            rule: AtomicU8::new(rule as u8),
            waits: AtomicBool::new(false),
            account: Mutex::default(),
            stands: Mutex::new(Stands {
                moved: now,
                put: now,
            }),
            turns: Arc::clone(self),
        });
        if self.patience.is_some() {
            let mut state = self.state.lock();
            state.turns.push(Arc::downgrade(&turn));
            state.tell();
        }
        turn
    }

    /// These tenants have work now, when all streams are looked at; those that wait
    /// have some, too. All but `held_for` are held back, if that is somebody. The time
    /// is since one moment in the past.
    pub(crate) fn settle(&self, now: Duration, busy: &HashSet<u64>, held_for: Option<u64>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let turns = state.turns.iter().filter_map(Weak::upgrade);
        let waiting = turns.filter(|turn| turn.waits.load(Ordering::Acquire));
        let all = busy.iter().copied().chain(waiting.map(|turn| turn.tenant));
        state.awake.extend(all.map(|tenant| (tenant, now)));
        state
            .awake
            .retain(|_, last| now.saturating_sub(*last) < REST);
        (state.now, state.held_for) = (now, held_for);
        state.tell();
    }

    /// The tenants that have work or had some a short time ago, of which these have
    /// some in flight.
    pub(crate) fn weighed(&self, busy: &HashSet<u64>) -> Vec<Weighed> {
        let state = self.state.lock();
        let turns = state.turns.iter().filter_map(Weak::upgrade);
        let awake = turns.filter(|turn| state.awake.contains_key(&turn.tenant));
        awake
            .map(|turn| Weighed {
                tenant: turn.tenant,
                weight: turn.weight,
                is_busy: busy.contains(&turn.tenant),
                waits: turn.waits.load(Ordering::Acquire),
            })
            .collect()
    }

    /// Whether a tenant has something in flight that it put in while nobody else had work.
    pub(crate) fn is_left(&self, tenant: u64) -> bool {
        let state = self.state.lock();
        let mut turns = state.turns.iter().filter_map(Weak::upgrade);
        turns.any(|turn| turn.tenant == tenant && turn.account.lock().is_left())
    }

    fn wake(&self, tenant: u64) {
        let mut state = self.state.lock();
        let now = state.now;
        state.awake.insert(tenant, now);
        state.tell();
    }
}

impl Turn {
    fn is(&self, rule: Rule) -> bool {
        self.rule.load(Ordering::Acquire) == rule as u8
    }

    /// Whether a piece of this share may be put in now. `is_first`: into a stream in
    /// which there is none.
    pub(crate) fn may_put(
        &self,
        share: Share,
        is_first: bool,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        if self.is(Rule::Free) {
            return true;
        }
        if self.is(Rule::Asleep) {
            self.turns.wake(self.tenant);
        }
        let may = match () {
            () if self.is(Rule::Held) => false,
            () if self.is(Rule::Bounded) => {
                self.account.lock().has_room_for(share)
                    || (is_first && self.has_stood_for_long(now()))
            }
            () => true,
        };
        self.waits.store(!may, Ordering::Release);
        may
    }

    /// Whether nothing of the tenant has been over for long, and it has put in nothing in
    /// spite of that: kernels may wait for others of their tenant, which are not in
    /// flight yet. What comes behind a piece in its stream is not waited for by that.
    /// The more is in flight, the longer it takes: else kernels that are longer than the
    /// patience, and wait for nobody, would be more and more.
    fn has_stood_for_long(&self, now: Instant) -> bool {
        let Some(patience) = self.turns.patience else {
            return false;
        };
        let devices = self.account.lock().devices();
        let mut stands = self.stands.lock();
        let has = now.saturating_duration_since(stands.moved) >= patience.saturating_mul(devices)
            && now.saturating_duration_since(stands.put) >= patience;
        if has {
            stands.put = now;
        }
        has
    }

    /// How many pieces may be behind one another until somebody looks whether they
    /// are over; `None` where nothing is bounded.
    pub(crate) fn apart(&self) -> Option<u64> {
        self.is(Rule::Bounded).then(|| self.account.lock().apart())
    }

    /// Whether its pieces are known to be short.
    pub(crate) fn is_short(&self) -> bool {
        self.account.lock().is_short()
    }

    /// A piece is put in.
    pub(crate) fn put(&self, share: Share) {
        let is_alone = self.is(Rule::Free);
        self.account.lock().put(share, is_alone);
    }

    /// Pieces of one stream are over, within a time where that is known. `is_exact`:
    /// they were looked at all the time.
    pub(crate) fn over(
        &self,
        pieces: Pieces,
        time: Option<Duration>,
        is_exact: bool,
        now: Instant,
    ) {
        self.stands.lock().moved = now;
        let mut account = self.account.lock();
        account.over(pieces);
        if let Some(time) = time {
            account.took(pieces, time, is_exact);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Share = Share::WHOLE;

    /// Puts in as much as it may.
    fn flood(turn: &Turn) -> usize {
        (0..500)
            .take_while(|_| {
                let may = turn.may_put(WHOLE, true, Instant::now);
                if may {
                    turn.put(WHOLE);
                }
                may
            })
            .count()
    }

    fn busy(tenants: &[u64]) -> HashSet<u64> {
        tenants.iter().copied().collect()
    }

    #[test]
    fn who_is_alone_is_never_held_and_who_is_not_is_bounded() {
        let turns = Turns::new(Some(Duration::MAX));
        let (one, two) = (turns.turn(1, 1), turns.turn(2, 1));
        let at = |seconds, tenants: &[u64]| {
            turns.settle(Duration::from_secs(seconds), &busy(tenants), None);
        };
        assert_eq!(flood(&one), 500);
        at(1, &[1]);
        assert_eq!(flood(&one), 500);
        // From the first piece of another one on.
        assert!(two.may_put(WHOLE, true, Instant::now));
        two.put(WHOLE);
        assert_eq!(flood(&one), 0);
        assert!(flood(&two) > 0);
        // Until it has had none for a while.
        at(2, &[1, 2]);
        assert_eq!(flood(&one), 0);
        at(9, &[1]);
        assert_eq!(flood(&one), 0, "the other one still waits");
        two.waits.store(false, Ordering::Release);
        at(10, &[1]);
        assert_eq!(flood(&one), 0);
        at(11, &[1]);
        assert_eq!(flood(&one), 500);
        assert!(two.is(Rule::Asleep));
    }

    #[test]
    fn all_but_one_are_held_back() {
        let turns = Turns::new(Some(Duration::MAX));
        let (one, two) = (turns.turn(1, 1), turns.turn(2, 1));
        turns.settle(Duration::ZERO, &busy(&[1, 2]), Some(2));
        let three = turns.turn(3, 1);
        assert_eq!((flood(&one), flood(&three)), (0, 0));
        assert!(flood(&two) > 0);
        // For the sake of memory that is cleared, all.
        turns.settle(Duration::ZERO, &busy(&[1, 2]), Some(0));
        assert_eq!((flood(&one), flood(&two)), (0, 0));
        turns.settle(Duration::ZERO, &busy(&[1, 2]), None);
        assert!(flood(&one) > 0 && flood(&three) > 0);
    }

    /// Kernels that wait for others of their tenant get these, one after the other.
    #[test]
    fn one_more_is_put_in_where_all_stand_still_for_long() {
        let patience = Duration::from_millis(50);
        let turns = Turns::new(Some(patience));
        let (one, _two) = (turns.turn(1, 1), turns.turn(2, 1));
        turns.settle(Duration::ZERO, &busy(&[1, 2]), None);
        let start = Instant::now();
        let at_once = flood(&one);
        for _ in 0..2 {
            while !one.may_put(WHOLE, true, Instant::now) {
                std::thread::sleep(Duration::from_millis(1));
            }
            one.put(WHOLE);
        }
        assert!(start.elapsed() >= 2 * patience, "{at_once}");
        // Not while it is held back.
        turns.settle(Duration::ZERO, &busy(&[1, 2]), Some(2));
        std::thread::sleep(2 * patience);
        assert!(!one.may_put(WHOLE, true, Instant::now));
    }

    #[test]
    fn nobody_waits_where_that_is_off() {
        let turns = Turns::new(None);
        let (one, two) = (turns.turn(1, 1), turns.turn(2, 1));
        assert_eq!((flood(&one), flood(&two)), (500, 500));
        assert_eq!(one.apart(), None);
    }
}
