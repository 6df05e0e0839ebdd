//! Whose turn it is where tenants have different weights: the rule alone, without a
//! device and without a clock.
//!
//! A device gives tenants about equal parts of its time, whatever the administrator
//! wants, and nothing tells how long a piece of work has had it. So tenants of
//! different weights take turns: one at a time puts work in, and all others wait, as
//! in a trial ([`crate::trials`]). It is a deficit round robin by the time on the
//! clock:
//!
//! * In each round, a tenant with work gets a credit in proportion to its weight;
//!   [`QUANTUM`] for the smallest one.
//! * Who has the turn pays for the time until it passes it on and what it has in flight
//!   then is over; the next one puts nothing in before that. So a long kernel is paid
//!   for by whose it is, out of coming rounds, [`DEBT`] of them at most.
//! * Who has no work passes its turn on at once, and loses its credit, but not its
//!   debt, as long as it counts as one that has work.
//!
//! So over a time, each of those that always have work gets its part of it, to within
//! a quantum and a kernel. Where all that have work have the same weight, there are
//! no such turns: their kernels run side by side.

use std::collections::BTreeMap;
use std::time::Duration;

/// The turn of the smallest weight.
pub(crate) const QUANTUM: Duration = Duration::from_millis(20);

/// Turns that a tenant owes at most: nobody waits for more rounds than that.
const DEBT: i64 = 16;

/// Nobody's number: what is in flight is waited for.
pub(crate) const NOBODY: u64 = 0;

/// The largest weight; the smallest one is 1.
pub const HEAVIEST: u32 = 64;

/// A tenant that has work, or had some a short time ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weighed {
    /// Its number.
    pub(crate) tenant: u64,
    /// How many parts of the time it gets.
    pub(crate) weight: u32,
    /// It has work in flight.
    pub(crate) is_busy: bool,
    /// It waits to put some in.
    pub(crate) waits: bool,
}

/// Turns by weight. All times are since one moment in the past.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    /// Nanoseconds that a tenant may have the turn for; what it owes, if negative.
    credit: BTreeMap<u64, i64>,
    /// Whose turn it is.
    owner: Option<u64>,
    /// Who had it before, and still has work in flight from then.
    leaving: Option<u64>,
    last: Duration,
}

impl Weights {
    /// Whose turn it is from now on, or [`NOBODY`]'s; `None`: everybody's.
    pub(crate) fn look(&mut self, now: Duration, all: &[Weighed]) -> Option<u64> {
        let passed = now.saturating_sub(self.last).as_nanos();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.last = now;
        let find = |tenant: u64| all.iter().find(|one| one.tenant == tenant);
        // What the one before left in flight is its own until it is over.
        let pays = self.leaving.or(self.owner);
        if let Some(credit) = pays.and_then(|tenant| self.credit.get_mut(&tenant)) {
            *credit = credit.saturating_sub(passed);
        }
        self.leaving = self
            .leaving
            .filter(|tenant| find(*tenant).is_some_and(|one| one.is_busy));
        self.credit.retain(|tenant, _| find(*tenant).is_some());
        let smallest = all.iter().map(|one| one.weight.max(1)).min()?;
        let at_work = |one: &&Weighed| one.is_busy || one.waits;
        let are_equal = all.iter().all(|one| one.weight.max(1) == smallest);
        if are_equal || all.iter().filter(at_work).count() < 2 {
            // Nothing is owed to anybody who is not kept from anything.
            (self.owner, self.leaving) = (None, None);
            self.credit.clear();
            return None;
        }
        for one in all {
            let credit = self.credit.entry(one.tenant).or_insert(0);
            *credit = (*credit).max(-DEBT * quantum(one, smallest));
            if !at_work(&one) {
                *credit = (*credit).min(0);
            }
        }
        let goes_on = self.owner.and_then(find).is_some_and(|one| {
            let has_credit = self
                .credit
                .get(&one.tenant)
                .is_some_and(|credit| *credit > 0);
            at_work(&one) && has_credit
        });
        if !goes_on && self.leaving.is_none() {
            let before = self.owner.take();
            self.owner = self.next(before, all, smallest);
            if before != self.owner {
                let is_busy = before.and_then(find).is_some_and(|one| one.is_busy);
                self.leaving = before.filter(|_| is_busy);
            }
        }
        self.leaving.map_or(self.owner, |_| Some(NOBODY))
    }

    /// The next one with work and credit behind `before`, in as many rounds as it
    /// takes.
    fn next(&mut self, before: Option<u64>, all: &[Weighed], smallest: u32) -> Option<u64> {
        let mut order: Vec<&Weighed> = all.iter().filter(|one| one.is_busy || one.waits).collect();
        order.sort_by_key(|one| {
            (
                before.is_some_and(|before| one.tenant <= before),
                one.tenant,
            )
        });
        let quantum = |one: &Weighed| quantum(one, smallest);
        // Rounds in which nobody's debt is paid need not be walked.
        let missing = order.iter().map(|one| {
            let credit = self.credit.get(&one.tenant).copied().unwrap_or(0);
            (credit.saturating_neg() / quantum(one).max(1)).max(0)
        });
        let skipped = missing.min()?;
        for one in &order {
            let credit = self.credit.entry(one.tenant).or_insert(0);
            *credit = credit.saturating_add(quantum(one).saturating_mul(skipped));
        }
        // In one of the next two rounds somebody has credit.
        for one in order.iter().chain(&order) {
            let credit = self.credit.entry(one.tenant).or_insert(0);
            *credit = credit.saturating_add(quantum(one));
            if *credit > 0 {
                return Some(one.tenant);
            }
        }
        None
    }
}

/// Nanoseconds of a turn, where the smallest weight is this.
fn quantum(one: &Weighed, smallest: u32) -> i64 {
    let parts = i64::from(one.weight.clamp(1, HEAVIEST));
    QUANTUM.as_nanos() as i64 * parts / i64::from(smallest.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn one(tenant: u64, weight: u32) -> Weighed {
        Weighed {
            tenant,
            weight,
            is_busy: false,
            waits: true,
        }
    }

    /// Milliseconds of the turn of each, if looks are a millisecond apart and nothing
    /// is left in flight.
    fn turns(all: &[Weighed], time: u64) -> BTreeMap<Option<u64>, u64> {
        let mut weights = Weights::default();
        let mut had = BTreeMap::new();
        for now in 0..time {
            let owner = weights.look(millis(now), all);
            *had.entry(owner).or_default() += 1;
        }
        had
    }

    #[test]
    fn turns_are_as_long_as_weights_are_large() {
        let had = turns(&[one(1, 1), one(2, 3), one(3, 2)], 6_000);
        for (tenant, expected) in [(1, 1_000), (2, 3_000), (3, 2_000u64)] {
            let had = had[&Some(tenant)];
            assert!(had.abs_diff(expected) <= 60, "{tenant}: {had}");
        }
    }

    #[test]
    fn who_has_the_same_weight_or_is_alone_has_no_turns() {
        assert_eq!(
            turns(&[one(1, 5), one(2, 5)], 100),
            BTreeMap::from([(None, 100)])
        );
        assert_eq!(turns(&[], 100), BTreeMap::from([(None, 100)]));
        let idle = Weighed {
            waits: false,
            ..one(2, 1)
        };
        assert_eq!(
            turns(&[one(1, 5), idle], 100),
            BTreeMap::from([(None, 100)])
        );
    }

    #[test]
    fn who_has_no_work_passes_its_turn_on() {
        let mut weights = Weights::default();
        let mut all = [one(1, 1), one(2, 2), one(3, 1)];
        let first = weights.look(millis(0), &all);
        assert_eq!(first, Some(1));
        all[0].waits = false;
        assert_eq!(weights.look(millis(1), &all), Some(2));
        // It is there again, and does not get what it has missed.
        all[0] = one(1, 1);
        let owners: Vec<_> = (2..102)
            .map(|now| weights.look(millis(now), &all))
            .collect();
        assert_eq!(owners.iter().filter(|owner| **owner == Some(1)).count(), 20);
    }

    #[test]
    fn what_is_left_in_flight_is_paid_for_by_whose_it_is() {
        let mut weights = Weights::default();
        let mut all = [one(1, 1), one(2, 2)];
        all[0].is_busy = true;
        assert_eq!(weights.look(millis(0), &all), Some(1));
        // A kernel of the first one runs on for 100 ms.
        for now in 20..=120 {
            assert_eq!(weights.look(millis(now), &all), Some(NOBODY));
        }
        all[0].is_busy = false;
        assert_eq!(weights.look(millis(121), &all), Some(2));
        // Its next five turns are paid with that.
        let owners: Vec<_> = (122..420)
            .map(|now| weights.look(millis(now), &all))
            .collect();
        let first = owners.iter().position(|owner| *owner == Some(1));
        assert!(first.is_some_and(|at| at >= 200), "{first:?}");
    }

    proptest! {
        /// Whoever has work while somebody has the turn gets it in time, and nobody
        /// without work has it.
        #[test]
        fn nobody_with_work_waits_for_ever(
            weights in prop::collection::vec(1u32..=HEAVIEST, 2..6),
            steps in prop::collection::vec((0usize..6, any::<bool>(), 0u64..50), 0..40),
        ) {
            let mut all: Vec<Weighed> = weights
                .iter()
                .zip(1..)
                .map(|(weight, tenant)| one(tenant, *weight))
                .collect();
            let mut rule = Weights::default();
            let mut now = 0;
            for (at, has_work, passed) in steps {
                now += passed;
                let at = at % all.len();
                (all[at].is_busy, all[at].waits) = (has_work, has_work);
                let owner = rule.look(millis(now), &all);
                let owner = owner.and_then(|owner| all.iter().find(|one| one.tenant == owner));
                prop_assert!(owner.is_none_or(|owner| owner.is_busy || owner.waits));
            }
            for one in &mut all {
                (one.is_busy, one.waits) = (false, true);
            }
            let smallest = weights.iter().min().copied().unwrap_or(1);
            let round: u64 = weights.iter().map(|weight| u64::from(*weight) * 20 / u64::from(smallest)).sum();
            let mut had = std::collections::BTreeSet::new();
            for _ in 0..20 * round + 1_000 {
                now += 1;
                had.extend(rule.look(millis(now), &all));
            }
            let are_equal = weights.iter().all(|weight| *weight == smallest);
            prop_assert_eq!(had.len(), if are_equal { 0 } else { all.len() });
        }
    }
}
