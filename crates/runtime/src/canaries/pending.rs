//! What is known of launches that are to be followed by checks, and when a check is
//! due: when the time since the last one, times the budget's percentage, is more
//! than checks were seen to take.

use super::Canaries;
use super::checks::{Checks, stamp};
use super::history::{Gathered, History, Reach};
use crate::functions::Function;
use crate::launches::{Begun, Listed, Target};
use crate::streams::StreamName;
use driver::SupportStream;
use host::Stack;
use model::CanaryCoverage;
use model::layout::canary::{NAMED_SLOTS, STAMPS};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The gap in the stream that a check costs beside the time that its kernel runs.
/// Measured on an H200: 2.5 to 3.3 µs, and 1.2 to 2.5 where it waits itself. The
/// host's time for a check is measured as it runs: it counts where it is longer.
const GAP: Duration = Duration::from_nanos(3300);
/// How many times the host's time for a check counts: a check also displaces the program's
/// data and code from the caches, which costs the program time later. (Measured on two hosts
/// with an H200: for each check, steps of training in PyTorch took 18 and 44 µs longer, 12 of
/// them in the check itself. The budget is to hold on both.)
const DISPLACED: u32 = 4;

/// Slots to verify.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    pub all: bool,
    pub named: SmallVec<[u32; NAMED_SLOTS]>,
}

impl Slots {
    pub fn add(&mut self, reach: &Reach) {
        match reach {
            Reach::All => self.all = true,
            Reach::Named(named) => {
                for (_, slot, _) in named.iter() {
                    if !self.named.contains(slot) {
                        self.named.push(*slot);
                    }
                }
            }
        }
        self.all |= self.named.len() > NAMED_SLOTS;
    }

    pub fn covers(&self, slot: u32) -> bool {
        self.all || self.named.contains(&slot)
    }
}

/// What is not verified yet in a stream.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub context: u64,
    pub stream: SupportStream,
    pub slots: Slots,
    pub launches: u64,
    pub since: Instant,
}

impl Pending {
    /// Launches that no stream can be named for.
    pub fn loose(context: u64, launches: u64) -> Pending {
        Pending {
            context,
            stream: SupportStream::Own,
            slots: Slots {
                all: true,
                ..Slots::default()
            },
            launches,
            since: Instant::now(),
        }
    }
}

/// See the module's header.
pub(super) struct State {
    pub pending: FxHashMap<StreamName, Pending>,
    /// By context: launches that no stream can be named for.
    pub loose: FxHashMap<u64, u64>,
    /// When a check was launched last.
    last: Option<Instant>,
    /// What checks take on the device, on average.
    cost: Duration,
    /// What they take of the host's time, on average: it is the longer one where a
    /// program launches short kernels one after the other.
    host: Duration,
    /// Where the next look at a part of all slots begins.
    pub cursor: u32,
    pub history: History,
    /// Checks whose stamps were read.
    stamped: u64,
    pub graph_kernels: Vec<(Arc<Function>, Stack)>,
    pub counts: CanaryCoverage,
}

impl Default for State {
    fn default() -> State {
        State {
            pending: FxHashMap::default(),
            loose: FxHashMap::default(),
            last: None,
            cost: Duration::from_micros(3),
            host: GAP / DISPLACED,
            cursor: 0,
            history: History::default(),
            stamped: 0,
            graph_kernels: Vec::new(),
            counts: CanaryCoverage::default(),
        }
    }
}

impl State {
    /// Reads what checks took that have ended.
    pub fn learn(&mut self, canaries: &Canaries, launched: u64) {
        while self.stamped < launched {
            let next = self.stamped + 1;
            let Some(stamp) = stamp(canaries, next).filter(|stamp| stamp.check >= next) else {
                // Older ones were overwritten.
                if launched - self.stamped > STAMPS {
                    self.stamped = launched - STAMPS;
                    continue;
                }
                return;
            };
            self.stamped = next;
            if stamp.check == next {
                let took = stamp.ended.saturating_sub(stamp.begun);
                self.counts.nanoseconds += took;
                self.cost = (self.cost * 7 + Duration::from_nanos(took)) / 8;
            }
        }
    }

    /// Takes over launches that were made one after the other.
    pub fn take_over(&mut self, checks: &Checks, listed: Arc<Listed>) {
        let count = listed.len() as u64;
        let pending = self.pending_in(listed.begun);
        pending.launches += count;
        pending.slots.all = true;
        self.history.gathered(Gathered {
            first: checks.orders(count),
            listed,
        });
    }

    /// What is pending in a stream.
    pub fn pending_in(&mut self, begun: Begun) -> &mut Pending {
        let Target { name, stream } = begun.target;
        self.pending.entry(name).or_insert_with(|| Pending {
            context: begun.context,
            stream,
            slots: Slots::default(),
            launches: 0,
            since: begun.since,
        })
    }

    /// What is pending in a stream, if a check is due.
    pub fn due(
        &mut self,
        canaries: &Canaries,
        name: StreamName,
        now: Instant,
    ) -> Option<(StreamName, Pending)> {
        let budget = canaries.checks.budget();
        // What checks took is read only when there may be one: the device writes
        // it.
        if !self.is_due(budget, now) {
            return None;
        }
        self.learn(canaries, canaries.checks.newest());
        if !self.is_due(budget, now) {
            return None;
        }
        let pending = self.pending.remove(&name)?;
        self.last = Some(now);
        Some((name, pending))
    }

    /// Whether the budget allows a check.
    pub fn is_due(&self, budget: u32, now: Instant) -> bool {
        let spared = |last: Instant| now.saturating_duration_since(last) * budget;
        budget >= 100
            || self
                .last
                .is_none_or(|last| spared(last) >= (self.cost + self.host_cost().max(GAP)) * 100)
    }

    /// What a check costs the program on the host.
    fn host_cost(&self) -> Duration {
        self.host * DISPLACED
    }

    /// Adds the host's time for a check to the average. A check whose thread was
    /// preempted counts for at most four times the average.
    pub fn host_took(&mut self, took: Duration) {
        self.host = (self.host * 7 + took.min(self.host * 4)) / 8;
    }

    pub fn count(&mut self, pending: &Pending) {
        self.counts.latency_launches = self.counts.latency_launches.max(pending.launches);
        let late = pending.since.elapsed().as_micros() as u64;
        self.counts.latency_microseconds = self.counts.latency_microseconds.max(late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_space_checks_and_all_of_it_spaces_none() {
        let mut state = State::default();
        let now = Instant::now();
        assert!(state.is_due(1, now));
        state.cost = Duration::from_millis(1);
        state.last = Some(now);
        let just = now + (state.cost + GAP) * 100;
        assert!(!state.is_due(1, just - Duration::from_nanos(1)) && state.is_due(1, just));
        assert!(!state.is_due(1, now) && state.is_due(100, now));
    }

    #[test]
    fn budgets_count_the_time_of_the_host_where_it_is_longer() {
        let mut state = State::default();
        let now = Instant::now();
        (state.cost, state.last) = (Duration::from_micros(1), Some(now));
        let soon = now + (state.cost + GAP) * 100;
        state.host_took(GAP / DISPLACED / 2);
        assert!(state.is_due(1, soon), "the gap in the stream is longer");
        for _ in 0..100 {
            state.host_took(GAP);
        }
        assert!(!state.is_due(1, soon));
        assert!(state.is_due(1, now + (state.cost + GAP * DISPLACED) * 100));
        // The scheduler's time is none of a check's.
        let before = state.host;
        state.host_took(Duration::from_secs(1));
        assert!(state.host < before * 2);
    }
}
