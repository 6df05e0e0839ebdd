//! How much work a tenant may have in flight while others have work, too: the rule
//! alone, without a device and without a clock.
//!
//! A device executes what is in the queues of all streams in about the order in
//! which it came to their heads. So a tenant waits for what others have in flight,
//! and no longer if that is bounded by time: then nobody's kernels are kept from
//! running by many others that each end in time. The rule, for a tenant beside
//! others that have work:
//!
//! * The pieces in flight, each expected to take as long as its recent ones, take
//!   no longer than [`BOUND`]. A piece that leaves multiprocessors free counts for the part
//!   of the device that it has.
//! * Pieces that are longer than that follow one another: one is in flight, and
//!   the next one where the pieces are not [`LONG`], so that the device does not
//!   wait for the host.
//! * As long as nothing is known, there are [`UNKNOWN`] pieces, or as many small ones
//!   as have a quarter of the device; and never more than [`MOST`]: the device
//!   executes 128 grids at a time.
//! * Where none of the pieces in flight is over for long, one more is put in: they may
//!   wait for it ([`crate::turns`]).
//!
//! A piece that took longer than expected counts at once. One that took less
//! halves what is expected, so that few short pieces are no leave for long ones.

use std::time::Duration;

/// Expected time of all that a tenant has in flight beside others.
pub(crate) const BOUND: Duration = Duration::from_millis(4);
/// Pieces of which one is in flight at a time.
const LONG: Duration = Duration::from_millis(20);
/// Pieces in flight as long as none is over: each may take as long as kernels may.
const UNKNOWN: u64 = 2;
/// Pieces in flight, at most.
const MOST: u64 = 96;
/// Pieces behind one another until somebody looks whether they are over, at most.
pub(crate) const MARKED: u64 = 16;

/// The part of the device that a piece of work has, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u32);

impl Share {
    /// All of it.
    pub(crate) const WHOLE: Share = Share(1000);

    /// That of a grid of so many blocks: no block has more than one of the
    /// multiprocessors.
    pub(crate) fn of(blocks: u64, multiprocessors: u32) -> Share {
        let all = u64::from(multiprocessors.max(1));
        Share((1000 * blocks.min(all) / all).max(1) as u32)
    }
}

/// Pieces of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    count: u64,
    /// The sum of their shares.
    shares: u64,
}

impl Pieces {
    /// Of these shares.
    pub(crate) fn of(shares: impl IntoIterator<Item = Share>) -> Pieces {
        let mut pieces = Pieces::default();
        shares.into_iter().for_each(|share| pieces.add(share));
        pieces
    }

    /// One more.
    pub(crate) fn add(&mut self, share: Share) {
        self.count += 1;
        self.shares += u64::from(share.0);
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// All of both.
    pub(crate) fn join(&mut self, others: Pieces) {
        self.count += others.count;
        self.shares += others.shares;
    }

    fn without(self, others: Pieces) -> Pieces {
        Pieces {
            count: self.count.saturating_sub(others.count),
            shares: self.shares.saturating_sub(others.shares),
        }
    }
}

/// What a tenant has in flight, and what is known of how long it takes.
#[derive(Debug, Default)]
pub(crate) struct Account {
    in_flight: Pieces,
    /// How many of them were put in while nobody else had work.
    alone: u64,
    /// How long a piece is expected to take.
    pace: Option<Duration>,
}

impl Account {
    /// A piece is put in. `is_alone`: nobody else has work.
    pub(crate) fn put(&mut self, share: Share, is_alone: bool) {
        self.in_flight.add(share);
        self.alone += u64::from(is_alone);
    }

    /// Pieces are over. (While there are some that were put in alone, there is hardly room
    /// for others.)
    pub(crate) fn over(&mut self, pieces: Pieces) {
        self.in_flight = self.in_flight.without(pieces);
        self.alone = self.alone.saturating_sub(pieces.count);
    }

    /// Whether something is in flight that was put in while nobody else had work.
    pub(crate) fn is_left(&self) -> bool {
        self.alone > 0
    }

    /// How many whole devices what is in flight has, rounded up; at least one.
    pub(crate) fn devices(&self) -> u32 {
        let devices = self.in_flight.shares.div_ceil(1000).max(1);
        u32::try_from(devices).unwrap_or(u32::MAX)
    }

    /// Pieces of one stream were over within a time. `is_exact`: they were looked
    /// at all the time; else they may have been over long before.
    pub(crate) fn took(&mut self, pieces: Pieces, time: Duration, is_exact: bool) {
        let Ok(count @ 1..) = u32::try_from(pieces.count) else {
            return;
        };
        let took = time / count;
        self.pace = Some(match self.pace {
            None => took,
            Some(pace) if took > pace && is_exact => took,
            Some(pace) => took.max(pace / 2).min(pace),
        });
    }

    /// Whether one more may be put in beside others that have work.
    pub(crate) fn has_room_for(&self, share: Share) -> bool {
        let Pieces { count, shares } = self.in_flight;
        if count >= MOST {
            return false;
        }
        let Some(pace) = self.pace else {
            return count < UNKNOWN || shares + u64::from(share.0) <= 250;
        };
        let least = if pace < LONG { 2 } else { 1 };
        let expected = pace.as_nanos() * u128::from(shares + u64::from(share.0)) / 1000;
        count < least || expected <= BOUND.as_nanos()
    }

    /// Whether pieces are known to be so short that [`MARKED`] may be behind one another
    /// until somebody looks.
    pub(crate) fn is_short(&self) -> bool {
        self.apart() == MARKED
    }

    /// How many pieces of a stream may be behind one another until somebody looks
    /// whether they are over.
    pub(crate) fn apart(&self) -> u64 {
        let pace = self.pace.unwrap_or(BOUND).as_nanos().max(1);
        u64::try_from(BOUND.as_nanos() / 8 / pace).map_or(MARKED, |apart| apart.clamp(1, MARKED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many pieces of this share there may be in flight, all of which take this
    /// time.
    fn room(time: Option<Duration>, share: Share) -> u64 {
        let mut account = Account {
            pace: time,
            ..Account::default()
        };
        while account.has_room_for(share) {
            account.put(share, false);
        }
        account.in_flight.count
    }

    #[test]
    fn the_time_in_flight_is_bounded() {
        let micros = Duration::from_micros;
        for (time, share, pieces) in [
            (None, Share::WHOLE, UNKNOWN),
            (None, Share::of(1, 132), 35),
            (None, Share::of(66, 132), UNKNOWN),
            (Some(micros(5)), Share::WHOLE, MOST),
            (Some(micros(100)), Share::WHOLE, 40),
            (Some(micros(3_000)), Share::WHOLE, 2),
            (Some(micros(10_000)), Share::WHOLE, 2),
            (Some(micros(300_000)), Share::WHOLE, 1),
            // Small grids run beside each other.
            (Some(micros(10_000)), Share::of(1, 132), 57),
            (Some(micros(10_000)), Share::of(66, 132), 2),
        ] {
            assert_eq!(room(time, share), pieces, "{time:?} {share:?}");
        }
        assert_eq!(Share::of(u64::MAX, 132), Share::WHOLE);
        assert_eq!(Share::of(0, 0), Share(1));
    }

    #[test]
    fn what_took_longer_counts_at_once_and_what_took_less_slowly() {
        let millis = Duration::from_millis;
        let one = |account: &mut Account, time, is_exact| {
            let mut pieces = Pieces::default();
            pieces.add(Share::WHOLE);
            account.took(pieces, time, is_exact);
            account.pace.unwrap()
        };
        let mut account = Account::default();
        assert_eq!(one(&mut account, millis(2), false), millis(2));
        assert_eq!(one(&mut account, millis(100), false), millis(2));
        assert_eq!(one(&mut account, millis(100), true), millis(100));
        assert_eq!(one(&mut account, millis(1), true), millis(50));
        assert_eq!(one(&mut account, millis(1), false), millis(25));
        assert_eq!(one(&mut account, millis(20), true), millis(20));
        // Nothing is known from nothing.
        account.took(Pieces::default(), millis(500), true);
        assert_eq!(account.pace, Some(millis(20)));
    }

    proptest! {
        /// Whatever has happened: who has nothing in flight may put a piece in, and
        /// what is in flight is as much as was put in and is not over.
        #[test]
        fn whoever_has_nothing_in_flight_has_room(
            steps in prop::collection::vec((0u64..300, 0u64..400_000, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let mut account = Account::default();
            let mut waiting = Vec::new();
            for (blocks, micros, puts, is_exact) in steps {
                let share = Share::of(blocks, 132);
                if puts && account.has_room_for(share) {
                    account.put(share, false);
                    waiting.push(share);
                } else if let Some(share) = waiting.pop() {
                    let mut pieces = Pieces::default();
                    pieces.add(share);
                    account.over(pieces);
                    account.took(pieces, Duration::from_micros(micros), is_exact);
                }
                prop_assert_eq!(account.in_flight.count, waiting.len() as u64);
                prop_assert!(waiting.len() as u64 <= MOST);
                prop_assert!(!waiting.is_empty() || account.has_room_for(Share::WHOLE));
                prop_assert!((1..=16).contains(&account.apart()));
            }
        }
    }
}
