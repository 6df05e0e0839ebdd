//! How long a loop continues that adds a step to a number and compares it.

use super::interval::{Interval, range};
use super::program::{Continues, NodeId};
use super::relation::Relation;
use crate::operation::{View, Width};

/// [`Continues`] with the values of one launch; `first` is the first compared
/// value.
pub(super) struct Staying {
    relation: Relation,
    first: Interval,
    step: Interval,
    limit: Interval,
    width: Width,
}

/// A bound above every trip count.
const ENDLESS: i128 = 1 << 64;

impl Staying {
    pub(super) fn of(continues: &Continues, value: impl Fn(NodeId) -> Interval) -> Staying {
        let width = continues.width;
        let (limit, step) = (value(continues.limit), value(continues.step));
        // `<=` and `>=` as `<` and `>`, one further.
        let (relation, further) = match continues.relation {
            Relation::AtMost(view) => (Relation::Less(view), 1),
            Relation::AtLeast(view) => (Relation::Greater(view), -1),
            other => (other, 0),
        };
        let first = value(continues.start).add(value(continues.shift), width);
        let (first, limit) = match relation {
            Relation::Less(view) | Relation::Greater(view) => {
                (first.view(view, width), limit.view(view, width))
            }
            _ => (first, limit),
        };
        Staying {
            relation,
            first,
            step: step.view(View::Signed, width),
            limit: if limit.is_empty() {
                limit
            } else {
                Interval {
                    low: limit.low + further,
                    high: limit.high + further,
                    zeros: limit.zeros,
                }
            },
            width,
        }
    }

    fn never(&self) -> bool {
        self.first.is_empty() || self.step.is_empty() || self.limit.is_empty()
    }

    /// Whether the sequence passes the limit before it can wrap.
    fn is_monotone(&self) -> bool {
        match self.relation {
            Relation::Less(view) => {
                let (_, most) = range(view, self.width);
                self.step.low >= 1 && self.limit.high - 1 + self.step.high <= most
            }
            Relation::Greater(view) => {
                let (least, _) = range(view, self.width);
                self.step.high <= -1 && self.limit.low + 1 + self.step.low >= least
            }
            _ => false,
        }
    }

    /// From zero to the trip count.
    pub(super) fn trips(&self) -> Interval {
        let up_to = |high: i128| Interval {
            low: 0,
            high,
            zeros: 0,
        };
        if self.never() {
            return up_to(0);
        }
        let ceil = |distance: i128, step: i128| {
            if distance <= 0 {
                0
            } else {
                quotient(distance + step - 1, step)
            }
        };
        match self.relation {
            Relation::Less(_) if self.is_monotone() => {
                up_to(ceil(self.limit.high - self.first.low, self.step.low))
            }
            Relation::Greater(_) if self.is_monotone() => {
                up_to(ceil(self.first.high - self.limit.low, -self.step.high))
            }
            Relation::Differs if self.step.is_point() && self.step.low != 0 => {
                // The first of the sequence that meets the limit.
                let distance = self.limit.add(self.first.negate(self.width), self.width);
                let (distance, step) = if self.step.low > 0 {
                    (distance, self.step.low)
                } else {
                    (distance.negate(self.width), -self.step.low)
                };
                let distance = distance.view(View::Unsigned, self.width);
                let meets = step == 1
                    || (distance.is_point() && distance.low % step == 0)
                    || (step & (step - 1) == 0
                        && u32::from(distance.zeros) >= step.trailing_zeros());
                if meets {
                    up_to(quotient(distance.high, step))
                } else {
                    up_to(ENDLESS)
                }
            }
            _ => up_to(ENDLESS),
        }
    }

    /// The values of the sequence for which the loop continues.
    pub(super) fn values(&self) -> Interval {
        if self.never() {
            return Interval::EMPTY;
        }
        let between = |low: i128, high: i128| {
            if low > high {
                return Interval::EMPTY;
            }
            Interval::of(low, high, self.width)
        };
        match self.relation {
            Relation::Less(_) if self.is_monotone() => between(self.first.low, self.limit.high - 1),
            Relation::Greater(_) if self.is_monotone() => {
                between(self.limit.low + 1, self.first.high)
            }
            _ => Interval::full(self.width),
        }
    }
}

/// Whether a number that starts in the first, and moves by the second as often
/// as the third at most, keeps to the numbers of a kind and width.
pub(super) fn is_steady(view: View, [start, step, trips]: [Interval; 3], width: Width) -> bool {
    let (start, step) = (start.view(view, width), step.view(view, width));
    if start.is_empty() || step.is_empty() {
        return true;
    }
    let (least, most) = range(view, width);
    trips.high < ENDLESS
        && start
            .high
            .saturating_add(step.high.max(0).saturating_mul(trips.high))
            <= most
        && start
            .low
            .saturating_add(step.low.min(0).saturating_mul(trips.high))
            >= least
}

/// Division of numbers that are not negative; most fit 64 bits, where it is
/// fast.
pub(crate) fn quotient(a: i128, b: i128) -> i128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) if b != 0 => i128::from(a / b),
        _ if b != 0 => a / b,
        _ => a,
    }
}
