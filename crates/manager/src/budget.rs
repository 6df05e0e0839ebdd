//! Which tenant's kernels are ended because those of another one do not get a
//! turn: the rule alone, without a device and without a clock.
//!
//! A device starts the blocks of a kernel where others leave room, and takes no
//! multiprocessor from a kernel that runs. So a stream whose work stands still is
//! one of two: its kernel runs for long, or it waits for somebody else's. From
//! outside both look the same. The rule:
//!
//! * Each stream that has work has a clock. It begins when work is put into the
//!   idle stream, and begins anew whenever some of its work is over: a queue whose
//!   first pieces were executed before another kernel took the device has stood still
//!   since then, although all of it was put in earlier. Streams, not
//!   tenants: who fills the device in one stream shows no progress by short
//!   kernels in another one.
//! * Nobody is ended unless the clocks of two tenants are beyond the budget. Who
//!   shares the device with idle tenants, with such as wait for their own host, or
//!   with such as get on, may run for ever. (So the budget has to be longer than
//!   one piece of each stream that has work takes, one after the other: who waits for as
//!   many long kernels stands still as long as who waits for one without end.)
//! * Then the tenant whose clock began first is ended: a kernel that keeps others
//!   from running has begun before they stood still. Where it is known of one that
//!   it runs ([`crate::trials`]), that one is ended, whatever the clocks say; and
//!   none, where all that stand still are known to run beside each other.
//! * A stream may also stand still because of several kernels of another tenant, each
//!   of which ends in time. That shows in *slow* pieces, which are over after their
//!   stream has stood still. So nobody is ended whose clock began before such a piece of
//!   somebody else was over, until none has been for a budget. Then there is a trial,
//!   in which nobody puts more in, and what is in flight comes to its end. Whose slow
//!   pieces take two budgets for that, and more than twice as long as those of any other
//!   one, is ended: what it has put in beside others was to take a few milliseconds.
//! * After that no clock counts until the kernels of that tenant are over, and
//!   then all begin anew: who was kept from running by it has its whole budget.
//! * A tenant that was ended before has half of the budget, then a quarter, down to
//!   a sixteenth: starting again is no way to keep the device.
//!
//! So of `n` tenants that keep the device together, the last is ended after `n`
//! budgets, and after as much again as their kernels take to end.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A stream that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whose it is.
    pub(crate) tenant: u64,
    /// Which: no other stream has the number.
    pub(crate) stream: u64,
    /// What is known of its work.
    pub(crate) work: Work,
    /// What may be done about it.
    pub(crate) role: Role,
}

/// What a stream counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It waits for others, and others for it.
    Tenant,
    /// It only waits for others: memory is cleared in it for a tenant that comes.
    Newcomer,
    /// Its kernels were told to end: it counts for nothing.
    Ended,
}

/// What is known of the work of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// There is none.
    Idle {
        /// As of queued work.
        done: u64,
    },
    /// Some is not over.
    Queued {
        /// A number that changes whenever a piece is over.
        done: u64,
        /// When the first piece that may not be over was put in.
        since: Duration,
    },
}

/// What is known beside what is seen.
pub(crate) struct Known<'a> {
    /// For whose sake all others have been held back since the last look, in a trial.
    pub(crate) held_for: Option<u64>,
    /// Whether it is known of a stream that its work runs.
    pub(crate) runs: &'a dyn Fn(&Seen) -> bool,
    /// Whether a tenant has something in flight that it put in while nobody else had work.
    pub(crate) is_left: &'a dyn Fn(u64) -> bool,
}

/// The clock of a stream.
#[derive(Clone, Copy)]
struct Clock {
    done: u64,
    began: Duration,
    /// When its first piece was put in: decides between equal clocks.
    put: Duration,
}

/// The clocks of all streams. All times are since one moment in the past.
pub(crate) struct Budget {
    limit: Duration,
    clocks: HashMap<u64, Clock>,
    /// Of streams that were idle at the last look: what was done then.
    rested: HashMap<u64, u64>,
    /// Before this no clock counts.
    from: Duration,
    /// A tenant that was ended, and when.
    ending: Option<(u64, Duration)>,
    /// How often tenants were ended.
    offences: HashMap<u64, u32>,
    /// When all streams were last looked at.
    looked: Duration,
    /// When a slow piece of a tenant was last over.
    slow: HashMap<u64, Duration>,
    trial: Option<OnTrial>,
}

/// A trial that goes on: what others had in flight when it began.
struct OnTrial {
    tenant: u64,
    /// When a slow piece of any other tenant was last over, or the trial began.
    moved: Duration,
    /// How long tenants have had the device since then, as slow pieces of theirs show.
    spent: HashMap<u64, Duration>,
}

/// How often the budget of a tenant is halved at most.
const HALVINGS: u32 = 4;
/// How long a stream stands still before a piece that is slow is over, if that is less
/// than a sixteenth of the budget.
const SLOW: Duration = Duration::from_millis(20);

impl Budget {
    /// With this budget.
    pub(crate) fn new(limit: Duration) -> Budget {
        Budget {
            limit,
            clocks: HashMap::new(),
            rested: HashMap::new(),
            from: Duration::ZERO,
            ending: None,
            offences: HashMap::new(),
            looked: Duration::ZERO,
            slow: HashMap::new(),
            trial: None,
        }
    }

    /// Looks at all streams there are; the tenant whose kernels are to be ended now.
    pub(crate) fn look(&mut self, now: Duration, seen: &[Seen], known: &Known) -> Option<u64> {
        let held_for = known.held_for;
        let tenants: HashSet<u64> = seen.iter().map(|one| one.tenant).collect();
        self.offences.retain(|tenant, _| tenants.contains(tenant));
        self.slow.retain(|tenant, _| tenants.contains(tenant));
        if self.trial.as_ref().map(|trial| trial.tenant) != held_for {
            self.trial = held_for.map(|tenant| OnTrial {
                tenant,
                moved: now,
                spent: HashMap::new(),
            });
        }
        self.advance(now, seen, known);
        if self.is_ending(now, seen) {
            self.from = now;
            return None;
        }
        let tenant = self.judge(now, seen, known.runs)?;
        *self.offences.entry(tenant).or_default() += 1;
        self.ending = Some((tenant, now));
        self.from = now;
        Some(tenant)
    }

    /// For how long a stream has stood still.
    pub(crate) fn age(&self, now: Duration, one: &Seen) -> Duration {
        let clock = self.clocks.get(&one.stream);
        clock.map_or(Duration::ZERO, |clock| self.stood(now, clock))
    }

    fn stood(&self, now: Duration, clock: &Clock) -> Duration {
        now.saturating_sub(clock.began.max(self.from))
    }

    /// Slow pieces of these tenants are over now.
    fn slow_over(&mut self, now: Duration, slow: &HashSet<u64>, known: &Known) {
        self.slow.extend(slow.iter().map(|tenant| (*tenant, now)));
        let Some(trial) = &mut self.trial else { return };
        let mut others = slow
            .iter()
            .copied()
            .filter(|one| *one != trial.tenant)
            .peekable();
        if others.peek().is_none() {
            return;
        }
        // Whose pieces are over at about the same time, one of them has had the device
        // until then.
        let took = now.saturating_sub(std::mem::replace(&mut trial.moved, now));
        // (What was put in while nobody else had work may take as long as it takes.)
        for tenant in others.filter(|tenant| !(known.is_left)(*tenant)) {
            *trial.spent.entry(tenant).or_default() += took;
        }
    }

    /// Sets the clocks.
    fn advance(&mut self, now: Duration, seen: &[Seen], known: &Known) {
        let mut clocks = HashMap::with_capacity(self.clocks.len());
        let mut rested = HashMap::new();
        let mut slow = HashSet::new();
        for one in seen {
            let is_over = |clock: &&Clock| match one.work {
                Work::Queued { done, .. } | Work::Idle { done } => done != clock.done,
            };
            // (None of it was over at the last look.)
            let is_slow = |clock: &Clock| {
                clock.began < self.looked && self.stood(now, clock) >= SLOW.min(self.limit / 16)
            };
            let over = self.clocks.get(&one.stream).filter(is_over);
            if over.is_some_and(is_slow) {
                slow.insert(one.tenant);
            }
            let (done, since) = match one.work {
                Work::Queued { done, since } => (done, since),
                Work::Idle { done } => {
                    rested.insert(one.stream, done);
                    continue;
                }
            };
            let put = since.min(now);
            let began = match (self.clocks.get(&one.stream), self.rested.get(&one.stream)) {
                (Some(clock), _) if clock.done == done => clock.began,
                (None, Some(rested)) if *rested == done => put,
                // Some of it was over some time since the last look.
                (Some(_), _) | (None, Some(_)) => now,
                (None, None) => put,
            };
            clocks.insert(one.stream, Clock { done, began, put });
        }
        (self.clocks, self.rested, self.looked) = (clocks, rested, now);
        self.slow_over(now, &slow, known);
    }

    /// Whether the kernels of the tenant that was ended last are not over. What
    /// does not end at all holds up the others for a budget, no longer.
    fn is_ending(&mut self, now: Duration, seen: &[Seen]) -> bool {
        let Some((tenant, since)) = self.ending else {
            return false;
        };
        let is_busy = |one: &Seen| {
            one.tenant == tenant
                && one.role == Role::Ended
                && !matches!(one.work, Work::Idle { .. })
        };
        let goes_on = now.saturating_sub(since) < self.limit && seen.iter().any(is_busy);
        if !goes_on {
            self.ending = None;
            // Once more: they were over some time since the last look.
            self.from = now;
        }
        goes_on
    }

    fn judge(&self, now: Duration, seen: &[Seen], runs: &dyn Fn(&Seen) -> bool) -> Option<u64> {
        let standing: Vec<(&Seen, &Clock)> = seen
            .iter()
            .filter(|one| one.role != Role::Ended)
            .filter_map(|one| Some((one, self.clocks.get(&one.stream)?)))
            .collect();
        let is_to_end = |(one, _): &&(&Seen, &Clock)| {
            let limit = self.limit_of(one.tenant);
            let waits = |(other, _): &(&Seen, &Clock)| {
                other.tenant != one.tenant && self.age(now, other) > limit && !runs(other)
            };
            let runs_for_another =
                |(other, _): &(&Seen, &Clock)| other.tenant != one.tenant && runs(other);
            one.role == Role::Tenant
                && self.age(now, one) > limit
                && standing.iter().any(waits)
                && (runs(one) || !standing.iter().any(runs_for_another))
        };
        let first = standing
            .iter()
            .filter(is_to_end)
            .min_by_key(|(one, clock)| (!runs(one), clock.began, clock.put, one.stream));
        let is_sure = |(one, clock): &&(&Seen, &Clock)| {
            runs(one) || self.waits_for_no_slow_one(now, one, clock)
        };
        let first = first.filter(is_sure).map(|(one, _)| one.tenant);
        first.or_else(|| self.takes_all(now, &standing))
    }

    /// Whether a stream that stands still does not do so because of pieces of others that
    /// end in time.
    fn waits_for_no_slow_one(&self, now: Duration, one: &Seen, clock: &Clock) -> bool {
        let others = self.slow.iter().filter(|(other, _)| **other != one.tenant);
        let last = others.map(|(_, at)| *at).max().unwrap_or_default();
        last <= clock.began.max(self.from) || now.saturating_sub(last) > self.limit
    }

    /// The tenant whose pieces, each of which ended in time, have kept the others from
    /// running for two budgets.
    fn takes_all(&self, now: Duration, standing: &[(&Seen, &Clock)]) -> Option<u64> {
        let trial = self.trial.as_ref()?;
        let waits = |(one, _): &(&Seen, &Clock)| {
            one.tenant == trial.tenant && self.age(now, one) > self.limit
        };
        if !standing.iter().any(waits) {
            return None;
        }
        let (tenant, most) = trial.spent.iter().max_by_key(|(_, spent)| **spent)?;
        let others = trial.spent.iter().filter(|(other, _)| *other != tenant);
        let next = others.map(|(_, spent)| *spent).max().unwrap_or_default();
        let is_there =
            |(one, _): &(&Seen, &Clock)| one.tenant == *tenant && one.role == Role::Tenant;
        let is_to_end =
            *most > 2 * next.max(self.limit_of(*tenant)) && standing.iter().any(is_there);
        is_to_end.then_some(*tenant)
    }

    fn limit_of(&self, tenant: u64) -> Duration {
        let offences = self.offences.get(&tenant).copied().unwrap_or(0);
        self.limit / (1 << offences.min(HALVINGS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: Duration = Duration::from_secs(8);
    const NOTHING: Known = Known {
        held_for: None,
        runs: &|_| false,
        is_left: &|_| false,
    };
    /// Between two looks.
    const STEP: Duration = Duration::from_millis(500);

    /// What a stream does from a look on: none of its work is over, or some is at
    /// each look, or it has none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Now {
        Stands,
        GetsOn,
        Idle,
    }
    use Now::{GetsOn, Idle, Stands};

    /// Streams, each of a tenant, until who keeps them from running is ended.
    struct World {
        budget: Budget,
        now: Duration,
        looks: u64,
        streams: Vec<(u64, Now, Duration)>,
        roles: HashMap<u64, Role>,
    }

    impl World {
        fn new() -> World {
            World {
                budget: Budget::new(LIMIT),
                now: Duration::ZERO,
                looks: 0,
                streams: Vec::new(),
                roles: HashMap::new(),
            }
        }

        /// Sets what a stream does; it is made when it is named first.
        fn set(&mut self, stream: usize, tenant: u64, does: Now) {
            while self.streams.len() <= stream {
                self.streams.push((tenant, Idle, Duration::ZERO));
            }
            if self.streams[stream].1 == Idle {
                self.streams[stream].2 = self.now;
            }
            (self.streams[stream].0, self.streams[stream].1) = (tenant, does);
        }

        fn look(&mut self) -> Option<u64> {
            self.now += STEP;
            self.looks += 1;
            let seen: Vec<Seen> = self
                .streams
                .iter()
                .enumerate()
                .map(|(stream, (tenant, does, put))| Seen {
                    tenant: *tenant,
                    stream: stream as u64,
                    work: match does {
                        Idle => Work::Idle { done: 0 },
                        Stands => Work::Queued {
                            done: 0,
                            since: *put,
                        },
                        GetsOn => Work::Queued {
                            done: self.looks,
                            since: *put,
                        },
                    },
                    role: self.roles.get(tenant).copied().unwrap_or(Role::Tenant),
                })
                .collect();
            let ended = self.budget.look(self.now, &seen, &NOTHING);
            if let Some(tenant) = ended {
                self.roles.insert(tenant, Role::Ended);
            }
            ended
        }

        /// Who is ended within this time, and after how long.
        fn run(&mut self, time: Duration) -> Option<(u64, Duration)> {
            let start = self.now;
            while self.now - start < time {
                if let Some(tenant) = self.look() {
                    return Some((tenant, self.now - start));
                }
            }
            None
        }
    }

    const LONG: Duration = Duration::from_secs(1000);

    /// Streams from their start, each with its tenant and what it does; who is
    /// ended first, if anybody.
    type Case = (&'static str, &'static [(u64, Now)], Option<u64>);

    const CASES: &[Case] = &[
        ("nobody has work", &[(1, Idle), (2, Idle)], None),
        ("alone", &[(1, Stands)], None),
        ("beside an idle tenant", &[(1, Stands), (2, Idle)], None),
        ("beside one that gets on", &[(1, Stands), (2, GetsOn)], None),
        ("only own streams wait", &[(1, Stands), (1, Stands)], None),
        ("another one waits", &[(1, Stands), (2, Stands)], Some(1)),
        (
            "another one gets on in one stream only",
            &[(1, Stands), (2, GetsOn), (2, Stands)],
            Some(1),
        ),
        (
            "short kernels hide nothing",
            &[(1, GetsOn), (1, Stands), (1, GetsOn), (2, Stands)],
            Some(1),
        ),
        (
            "in the order of their beginnings",
            &[(3, Stands), (1, Stands), (2, Stands)],
            Some(3),
        ),
    ];

    #[test]
    fn who_began_first_is_ended_where_another_one_waits() {
        for (what, streams, ended) in CASES {
            let mut world = World::new();
            for (stream, (tenant, does)) in streams.iter().enumerate() {
                world.set(stream, *tenant, *does);
                assert_eq!(world.look(), None, "{what}");
            }
            let found = world.run(LONG);
            assert_eq!(found.map(|(tenant, _)| tenant), *ended, "{what}");
            if let Some((_, after)) = found {
                assert!(after > LIMIT - 3 * STEP && after <= LIMIT + STEP, "{what}");
            }
        }
    }

    /// The neighbour got on until the endless kernel began.
    #[test]
    fn who_got_on_until_then_is_not_ended() {
        let mut world = World::new();
        world.set(0, 2, GetsOn);
        assert_eq!(world.run(LONG), None);
        world.set(1, 1, Stands);
        world.look();
        world.set(0, 2, Stands);
        let (tenant, after) = world.run(LONG).unwrap();
        assert_eq!(tenant, 1);
        assert!(after <= LIMIT + 2 * STEP, "{after:?}");
        // Its kernels are over; the neighbour gets on, and is idle now and then.
        world.set(1, 1, Idle);
        for does in [GetsOn, Idle, GetsOn, Stands] {
            world.set(0, 2, does);
            assert_eq!(world.run(LONG), None);
        }
    }

    /// A round of work that was put in at once, and of which some was over before
    /// the endless kernel began.
    #[test]
    fn a_queue_stands_still_since_its_last_piece_was_over() {
        let millis = Duration::from_millis;
        let stream = |tenant, work| Seen {
            tenant,
            stream: tenant,
            work,
            role: Role::Tenant,
        };
        for (over, ended) in [(7, 1), (5, 2)] {
            let mut budget = Budget::new(LIMIT);
            let before = [stream(2, Work::Idle { done: 5 })];
            assert_eq!(budget.look(millis(100), &before, &NOTHING), None);
            let (round, endless) = (millis(140), millis(150));
            let standing = [
                stream(
                    2,
                    Work::Queued {
                        done: over,
                        since: round,
                    },
                ),
                stream(
                    1,
                    Work::Queued {
                        done: 0,
                        since: endless,
                    },
                ),
            ];
            let looks = (2..200).map(|look| millis(100) * look);
            let found = looks
                .filter_map(|now| budget.look(now, &standing, &NOTHING))
                .next();
            assert_eq!(found, Some(ended), "{over}");
        }
    }

    #[test]
    fn a_kernel_that_ends_in_time_is_not_ended() {
        let mut world = World::new();
        world.set(1, 2, Stands);
        for _ in 0..20 {
            world.set(0, 1, Stands);
            assert_eq!(world.run(LIMIT - 2 * STEP), None);
            // Then both get on for a moment.
            for stream in [0, 1] {
                world.set(stream, stream as u64 + 1, GetsOn);
            }
            assert_eq!(world.look(), None);
            world.set(1, 2, Stands);
        }
    }

    /// A neighbour waits for as many budgets as there are tenants against it, and
    /// is not ended itself.
    #[test]
    fn tenants_that_work_together_are_ended_one_after_the_other() {
        let mut world = World::new();
        let (tenants, neighbour) = (4, 9);
        for tenant in 1..=tenants {
            world.set(tenant as usize, tenant, Stands);
            world.look();
        }
        world.set(0, neighbour, Stands);
        let start = world.now;
        for tenant in 1..=tenants {
            assert_eq!(world.run(LONG).map(|(who, _)| who), Some(tenant));
            world.set(tenant as usize, tenant, Idle);
        }
        let most = (LIMIT + 3 * STEP) * tenants as u32;
        assert!(world.now - start <= most, "{:?}", world.now - start);
        assert_eq!(world.run(LONG), None);
    }

    /// Kernels that do not end although they were told to hold up the others for one
    /// budget more.
    #[test]
    fn what_does_not_end_delays_no_longer_than_a_budget() {
        let mut world = World::new();
        for (stream, tenant) in [1, 2, 3].into_iter().enumerate() {
            world.set(stream, tenant, Stands);
            world.look();
        }
        assert_eq!(world.run(LONG).map(|(who, _)| who), Some(1));
        let (tenant, after) = world.run(LONG).unwrap();
        assert_eq!(tenant, 2);
        assert!(after > 2 * LIMIT - STEP, "{after:?}");
        assert!(after <= 2 * LIMIT + 3 * STEP, "{after:?}");
    }

    /// Who begins again after each end has less time, and the neighbour as much as
    /// before.
    #[test]
    fn who_was_ended_before_is_ended_earlier() {
        let mut world = World::new();
        world.set(0, 1, Stands);
        world.look();
        world.set(1, 2, Stands);
        let mut last = LONG;
        for round in 0..8 {
            let (tenant, after) = world.run(LONG).unwrap();
            assert_eq!(tenant, 1);
            assert!(after <= last, "round {round}: {after:?} after {last:?}");
            last = after;
            world.set(0, 1, Idle);
            assert_eq!(world.look(), None);
            world.roles.remove(&1);
            world.set(0, 1, Stands);
        }
        assert!(last <= LIMIT / 8, "{last:?}");
    }

    #[test]
    fn one_that_comes_is_waited_for_and_not_ended() {
        let mut world = World::new();
        world.roles.insert(0, Role::Newcomer);
        world.set(0, 0, Stands);
        world.look();
        world.set(1, 1, Stands);
        assert_eq!(world.run(LONG).map(|(who, _)| who), Some(1));
        assert_eq!(world.run(LONG), None);
    }

    proptest! {
        /// Whatever streams do: who is ended has stood still in one stream for
        /// its budget, which is a sixteenth at least, and so has another tenant;
        /// nobody is ended twice in a row without a budget between.
        #[test]
        fn nobody_is_ended_without_cause(
            steps in prop::collection::vec((0usize..6, 0u8..6), 0..400),
        ) {
            let mut world = World::new();
            // When each stream last did anything but stand still.
            let mut moved = [Duration::ZERO; 6];
            let mut last_end: Option<Duration> = None;
            for (stream, does) in steps {
                let does = match does {
                    0 => Idle,
                    1 => GetsOn,
                    _ => Stands,
                };
                let tenant = 1 + stream as u64 / 2;
                world.roles.remove(&tenant);
                world.set(stream, tenant, does);
                for _ in 0..3 {
                    let ended = world.look();
                    for (at, (_, does, _)) in world.streams.iter().enumerate() {
                        if *does != Stands {
                            moved[at] = world.now;
                        }
                    }
                    let Some(tenant) = ended else { continue };
                    let least = LIMIT / (1 << HALVINGS);
                    let stood = |mine: bool| {
                        let mut streams = world.streams.iter().zip(moved);
                        streams.any(|((whose, ..), moved)| {
                            (*whose == tenant) == mine && world.now - moved > least
                        })
                    };
                    prop_assert!(stood(true) && stood(false), "{tenant}");
                    let since = last_end.map(|last| world.now - last);
                    prop_assert!(since.is_none_or(|since| since > least));
                    last_end = Some(world.now);
                }
            }
        }
    }
}
