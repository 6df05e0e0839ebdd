//! Whether a stream that stands still runs or waits for others: the rule alone,
//! without a device and without a clock.
//!
//! From outside, a kernel that runs for long looks like one that has not begun
//! because others have the device. So the others are held back: nobody else's work
//! is put in until theirs is over, a *trial*. Then
//!
//! * either the stream gets on: others kept it from running, and it has had its turn;
//! * or it still stands. Nobody else has work in the device, so it is its tenant
//!   whose work runs. The others go on, no trial is made for the same piece again,
//!   and [`crate::budget`] knows who runs.
//!
//! A trial is made for the stream that has stood still for longest, once that is a
//! quarter of the budget, where another tenant gets on or has none. Where the others
//! stand still as well, holding them back shows nothing, and the budget decides. A
//! trial ends without a result after one budget; the next one begins a quarter of it
//! later, so that who is held back gets on meanwhile.
//!
//! A stream that has stood still for a budget, and of which the budget cannot tell
//! whether it waits for many pieces that each end in time, has its trial in any case,
//! until it gets on or somebody is ended. Nobody waits for longer than
//! [`LONGEST`] budgets for that.

use crate::budget::{Role, Seen, Work};
use std::collections::HashMap;
use std::time::Duration;

/// A trial that goes on.
#[derive(Clone, Copy, Debug)]
struct Trial {
    tenant: u64,
    stream: u64,
    done: u64,
    since: Duration,
    /// The stream had stood still for a budget.
    is_last: bool,
}

/// Budgets that a trial takes, at most.
const LONGEST: u32 = 4;

/// Trials, and what they have shown. All times are since one moment in the past.
pub(crate) struct Trials {
    limit: Duration,
    trial: Option<Trial>,
    /// Before this none begins, and none of those that are made in any case.
    from: Duration,
    last_from: Duration,
    /// Streams whose tenant had the device alone since the piece that is at their head
    /// was put in: what was done of their work then.
    runners: HashMap<u64, u64>,
}

/// The work of a stream that is not idle: what is done of it.
fn queued(one: &Seen) -> Option<u64> {
    match one.work {
        Work::Queued { done, .. } => Some(done),
        Work::Idle { .. } => None,
    }
}

impl Trials {
    /// With this budget.
    pub(crate) fn new(limit: Duration) -> Trials {
        Trials {
            limit,
            trial: None,
            from: Duration::ZERO,
            last_from: Duration::ZERO,
            runners: HashMap::new(),
        }
    }

    /// How long a stream stands still before there is a trial.
    fn patience(&self) -> Duration {
        self.limit / 4
    }

    /// Looks at all streams there are. `age` tells for how long a stream has stood still.
    /// The tenant for whose sake all others are to be held back from now on; they
    /// are by the next look.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        seen: &[Seen],
        age: impl Fn(&Seen) -> Duration,
    ) -> Option<u64> {
        let heads: HashMap<u64, u64> = seen
            .iter()
            .filter_map(|one| Some((one.stream, queued(one)?)))
            .collect();
        self.runners
            .retain(|stream, done| heads.get(stream) == Some(done));
        match self.trial {
            Some(trial) => self.judge(trial, now, seen, &age),
            None => self.begin(now, seen, &age),
        }
        self.trial.map(|trial| trial.tenant)
    }

    /// For whose sake all others are held back.
    pub(crate) fn tenant(&self) -> Option<u64> {
        self.trial.map(|trial| trial.tenant)
    }

    /// The others could not be held back: there is no trial for now.
    pub(crate) fn give_up(&mut self, now: Duration) {
        self.trial = None;
        self.from = now + self.patience();
    }

    /// Whether the tenant of a stream is known to have had the device alone since the
    /// piece at the stream's head was put in.
    pub(crate) fn is_runner(&self, one: &Seen) -> bool {
        queued(one).is_some_and(|done| self.runners.get(&one.stream) == Some(&done))
    }

    /// Looks at what a trial shows.
    fn judge(
        &mut self,
        trial: Trial,
        now: Duration,
        seen: &[Seen],
        age: &impl Fn(&Seen) -> Duration,
    ) {
        let stands = seen.iter().any(|one| {
            one.stream == trial.stream && one.role != Role::Ended && queued(one) == Some(trial.done)
        });
        if !stands {
            self.trial = None;
            return;
        }
        let others = seen
            .iter()
            .filter(|one| one.tenant != trial.tenant && queued(one).is_some());
        let (mut are_over, mut do_stand) = (true, true);
        for other in others {
            are_over = false;
            do_stand &= age(other) >= self.patience();
        }
        if are_over {
            let own = seen.iter().filter(|one| one.tenant == trial.tenant);
            let own = own.filter_map(|one| Some((one.stream, queued(one)?)));
            self.runners.extend(own);
            self.trial = None;
        } else {
            let took = now.saturating_sub(trial.since);
            let is_vain = match trial.is_last {
                false => do_stand || took >= self.limit,
                true => took >= self.limit * LONGEST,
            };
            if is_vain {
                self.give_up(now);
            }
            if is_vain && trial.is_last {
                self.last_from = now + self.limit;
            }
        }
    }

    /// Begins a trial where one shows something.
    fn begin(&mut self, now: Duration, seen: &[Seen], age: &impl Fn(&Seen) -> Duration) {
        let stands = |one: &Seen| queued(one).is_some() && age(one) >= self.patience();
        let first = seen
            .iter()
            .filter(|one| one.role != Role::Ended && stands(one) && !self.is_runner(one))
            .max_by_key(|one| (age(one), std::cmp::Reverse(one.stream)));
        let Some(first) = first else { return };
        let is_last = age(first) > self.limit;
        if now < if is_last { self.last_from } else { self.from } {
            return;
        }
        let mut others = seen.iter().filter(|one| one.tenant != first.tenant);
        let are_idle = others.clone().all(|one| queued(one).is_none());
        let gets_on = others.any(|one| queued(one).is_some() && !stands(one));
        if (are_idle || gets_on || is_last)
            && let Some(done) = queued(first)
        {
            self.trial = Some(Trial {
                tenant: first.tenant,
                stream: first.stream,
                done,
                since: now,
                is_last,
            });
        }
    }
}

#[cfg(test)]
mod tests;
