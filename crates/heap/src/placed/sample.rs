//! Which small allocations get a granule of memory of their own, where memory
//! for all would be too much: as many as a budget allows, and another sample of
//! them with another seed.
//!
//! While less than half of the budget is spent, each gets one: most programs
//! need no sample. After that it is the less likely the more is spent, so that
//! allocations which are made late are among those that get one, too.

use crate::canary::mix;

/// See the module's header.
#[derive(Clone, Debug)]
pub struct Sample {
    seed: u64,
    budget: u64,
    spent: u64,
    asked: u64,
    is_partial: bool,
}

impl Sample {
    /// Nothing is spent yet.
    pub fn new(seed: u64, budget: u64) -> Sample {
        Sample {
            seed,
            budget,
            spent: 0,
            asked: 0,
            is_partial: false,
        }
    }

    /// Whether the next allocation is one of the sample; `cost` bytes are spent
    /// then, until [`Sample::refund`].
    pub fn takes(&mut self, cost: u64) -> bool {
        self.asked += 1;
        let after = self.spent.saturating_add(cost);
        let half = self.budget / 2;
        let takes = after <= half
            || after <= self.budget && {
                // Falls from 1, where half is spent, to 0.
                let left = self.budget - self.spent;
                let bound = u128::from(left) << 64;
                let drawn = u128::from(mix(self.seed ^ mix(self.asked)));
                drawn * u128::from(half.max(1)) < bound
            };
        match takes {
            true => self.spent = after,
            false => self.is_partial = true,
        }
        takes
    }

    /// An allocation of the sample is gone.
    pub fn refund(&mut self, cost: u64) {
        self.spent = self.spent.saturating_sub(cost);
    }

    /// The seed, if some allocation was not taken.
    pub fn seed_if_partial(&self) -> Option<u64> {
        self.is_partial.then_some(self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(seed: u64, budget: u64, number: u64) -> Vec<u64> {
        let mut sample = Sample::new(seed, budget);
        (0..number).filter(|_| sample.takes(100)).collect()
    }

    #[test]
    fn all_are_taken_while_half_of_the_budget_is_left() {
        for seed in 0..50 {
            assert_eq!(taken(seed, 2000, 10), (0..10).collect::<Vec<_>>());
        }
        let mut sample = Sample::new(1, 1000);
        for _ in 0..1000 {
            assert!(sample.takes(500));
            sample.refund(500);
        }
        assert_eq!(sample.seed_if_partial(), None);
    }

    #[test]
    fn the_sample_keeps_to_the_budget_reaches_late_ones_and_depends_on_the_seed() {
        let sample = taken(1, 10_000, 2000);
        assert!(sample.len() <= 100 && sample.len() > 90);
        assert!(sample.iter().any(|at| *at > 200), "{sample:?}");
        assert_eq!(sample, taken(1, 10_000, 2000));
        assert_ne!(sample, taken(2, 10_000, 2000));
        let mut sample = Sample::new(7, 0);
        assert!(!sample.takes(1));
        assert_eq!(sample.seed_if_partial(), Some(7));
        // Nothing overflows.
        let mut largest = Sample::new(7, u64::MAX);
        largest.takes(u64::MAX);
        largest.takes(u64::MAX);
    }
}
