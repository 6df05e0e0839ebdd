//! Intervals of integers modulo a power of two.
//!
//! A register of `w` bits that holds `x` represents every integer congruent to
//! `x` modulo `2^w`. An [`Interval`] represents the integers from `low` to
//! `high` and all that are congruent to one of them: sums, differences and
//! products of such intervals are right however often the register wraps. Some
//! instructions read the bits as a signed or an unsigned number (a comparison,
//! an extension, a division). Only for these the interval is mapped into that
//! range; one that crosses the ends of the range becomes all of it.

use super::relation::Relation;
use super::relative::BoundedPointer;
use crate::operation::{View, Width};
use std::cmp::{max, min};

/// Integers from `low` to `high`, modulo `2^w`; none if `low > high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: i128,
    pub(crate) high: i128,
    /// Low bits that are known to be zero.
    pub(crate) zeros: u8,
}

fn modulus(width: Width) -> i128 {
    1 << width
}

impl Interval {
    /// No integer: the place is not reached.
    pub(crate) const EMPTY: Interval = Interval {
        low: 1,
        high: 0,
        zeros: 0,
    };

    pub(crate) fn is_empty(self) -> bool {
        self.low > self.high
    }

    pub(crate) fn is_point(self) -> bool {
        self.low == self.high
    }

    /// Every value of a register.
    pub(crate) fn full(width: Width) -> Interval {
        Interval {
            low: -(modulus(width) >> 1),
            high: (modulus(width) >> 1) - 1,
            zeros: 0,
        }
    }

    pub(crate) fn point(value: i128, width: Width) -> Interval {
        Interval::of(value, value, width)
    }

    /// From `low` to `high`, which are in order.
    pub(crate) fn of(low: i128, high: i128, width: Width) -> Interval {
        Interval {
            low,
            high,
            zeros: 0,
        }
        .settled(width)
    }

    /// The same set with its low end in the signed range.
    pub(crate) fn settled(self, width: Width) -> Interval {
        let span = self.high - self.low;
        if span < 0 {
            return Interval::EMPTY;
        }
        if span >= modulus(width) - 1 {
            return Interval {
                zeros: self.zeros,
                ..Interval::full(width)
            };
        }
        let half = modulus(width) >> 1;
        let low = ((self.low + half) & (modulus(width) - 1)) - half;
        let zeros = if span == 0 {
            min(low.trailing_zeros(), u32::from(width)) as u8
        } else {
            self.zeros
        };
        Interval {
            low,
            high: low + span,
            zeros,
        }
    }

    pub(crate) fn with_zeros(self, zeros: u8) -> Interval {
        Interval {
            zeros: max(self.zeros, zeros),
            ..self
        }
    }

    /// As numbers of one kind: an interval that crosses the ends of the range
    /// becomes all of it.
    pub(crate) fn view(self, view: View, width: Width) -> Interval {
        let (least, most) = range(view, width);
        if self.is_empty() {
            return self;
        }
        let mut this = self;
        if this.low < least {
            this.low += modulus(width);
            this.high += modulus(width);
        }
        if this.high > most {
            this.low = least;
            this.high = most;
        }
        this
    }

    pub(crate) fn add(self, other: Interval, width: Width) -> Interval {
        if self.is_empty() || other.is_empty() {
            return Interval::EMPTY;
        }
        Interval {
            low: self.low + other.low,
            high: self.high + other.high,
            zeros: min(self.zeros, other.zeros),
        }
        .settled(width)
    }

    pub(crate) fn negate(self, width: Width) -> Interval {
        if self.is_empty() {
            return self;
        }
        Interval {
            low: -self.high,
            high: -self.low,
            zeros: self.zeros,
        }
        .settled(width)
    }

    pub(crate) fn multiply(self, other: Interval, width: Width) -> Interval {
        if self.is_empty() || other.is_empty() {
            return Interval::EMPTY;
        }
        let zeros = min(
            u16::from(self.zeros) + u16::from(other.zeros),
            u16::from(width),
        ) as u8;
        let small = |interval: Interval| {
            let (low, high) = (i64::try_from(interval.low), i64::try_from(interval.high));
            Some((i128::from(low.ok()?), i128::from(high.ok()?)))
        };
        if let (Some((a, b)), Some((c, d))) = (small(self), small(other)) {
            // (The span of two such products fits.)
            let (low, high) = if c == d {
                (min(a * c, b * c), max(a * c, b * c))
            } else {
                let (ac, ad, bc, bd) = (a * c, a * d, b * c, b * d);
                (min(min(ac, ad), min(bc, bd)), max(max(ac, ad), max(bc, bd)))
            };
            return Interval { low, high, zeros }.settled(width);
        }
        let ends = [
            self.low.checked_mul(other.low),
            self.low.checked_mul(other.high),
            self.high.checked_mul(other.low),
            self.high.checked_mul(other.high),
        ];
        let [Some(a), Some(b), Some(c), Some(d)] = ends else {
            return Interval::full(width).with_zeros(zeros);
        };
        let (low, high) = (min(min(a, b), min(c, d)), max(max(a, b), max(c, d)));
        // Beyond this, the span itself might not fit.
        const LIMIT: i128 = 1 << 125;
        if low < -LIMIT || high > LIMIT {
            return Interval::full(width).with_zeros(zeros);
        }
        Interval { low, high, zeros }.settled(width)
    }

    /// Times a constant.
    pub(crate) fn scale(self, factor: i64, width: Width) -> Interval {
        let zeros = if factor == 0 {
            width
        } else {
            factor.trailing_zeros() as u8
        };
        let factor = Interval {
            low: i128::from(factor),
            high: i128::from(factor),
            zeros,
        };
        self.multiply(factor, width)
    }

    /// A narrower register that holds the low bits.
    pub(crate) fn truncate(self, width: Width) -> Interval {
        if self.is_empty() {
            return self;
        }
        Interval {
            zeros: min(self.zeros, width),
            ..self
        }
        .settled(width)
    }

    /// What a wider register holds after an extension.
    pub(crate) fn extend(self, view: View, from: Width, to: Width) -> Interval {
        let seen = self.view(view, from);
        if seen.is_empty() {
            return seen;
        }
        Interval {
            zeros: if seen.is_point() && seen.low == 0 {
                to
            } else {
                seen.zeros
            },
            ..seen
        }
        .settled(to)
    }

    /// What is in both.
    pub(crate) fn intersect(self, other: Interval, width: Width) -> Interval {
        if self.is_empty() || other.is_empty() {
            return Interval::EMPTY;
        }
        let zeros = max(self.zeros, other.zeros);
        // `other` at its last place that does not start after `self`, and one
        // further.
        let turns = (self.low - other.low) >> width;
        let (low, high) = (other.low + (turns << width), other.high + (turns << width));
        let before = high >= self.low;
        let after = low + modulus(width) <= self.high;
        let mut both = match (before, after) {
            (true, true) if self.high - self.low <= other.high - other.low => self,
            (true, true) => other,
            (true, false) => Interval {
                low: self.low,
                high: min(self.high, high),
                zeros,
            },
            (false, true) => Interval {
                low: low + modulus(width),
                high: min(self.high, high + modulus(width)),
                zeros,
            },
            (false, false) => return Interval::EMPTY,
        };
        both.zeros = zeros;
        both.settled(width)
    }

    /// The smallest interval around both.
    pub(crate) fn hull(self, other: Interval, width: Width) -> Interval {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let turns = (self.low - other.low) >> width;
        let around = |by: i128| {
            let shift = by << width;
            (
                min(self.low, other.low + shift),
                max(self.high, other.high + shift),
            )
        };
        let (first, second) = (around(turns), around(turns + 1));
        let (low, high) = if first.1 - first.0 <= second.1 - second.0 {
            first
        } else {
            second
        };
        Interval {
            low,
            high,
            zeros: min(self.zeros, other.zeros),
        }
        .settled(width)
    }

    /// Whether every member of `other` is a member, with the zeros that members
    /// have.
    pub(crate) fn contains(self, other: Interval, width: Width) -> bool {
        if other.is_empty() {
            return true;
        }
        if self.is_empty() || self.zeros > other.zeros {
            return false;
        }
        let span = self.high - self.low;
        let offset = (other.low - self.low) & (modulus(width) - 1);
        span >= modulus(width) - 1 || offset + (other.high - other.low) <= span
    }

    /// The same without ends that are no multiples of what all its numbers are. (At most
    /// [`BoundedPointer::STEP`]: answers hold for buffers that lie elsewhere by so much.)
    pub(crate) fn rounded(self) -> Interval {
        let zeros = u32::from(self.zeros).min(BoundedPointer::STEP.trailing_zeros());
        let below = (1i128 << zeros) - 1;
        Interval {
            low: (self.low + below) & !below,
            high: self.high & !below,
            ..self
        }
    }

    /// An interval around both, whose ends are those of `self` where `grown` is
    /// not beyond them, and else the next of `ends` or of the ends of the signed
    /// range and zero. Nothing is known of low bits if `grown` has fewer that are zero:
    /// of what is halved, each time has one less.
    pub(crate) fn widened(
        self,
        grown: Interval,
        ends: impl Iterator<Item = Interval>,
        width: Width,
    ) -> Interval {
        let around = self.hull(grown, width);
        let (least, most) = range(View::Signed, width);
        if self.is_empty() || around.high > most {
            return around;
        }
        let mut low = if around.low >= 0 { 0 } else { least };
        let mut high = most;
        for end in ends.filter(|end| !end.is_empty()) {
            let end = end.view(View::Signed, width);
            if end.low <= around.low {
                low = max(low, end.low);
            }
            if end.high >= around.high {
                high = min(high, end.high);
            }
        }
        Interval {
            low: if around.low == self.low {
                self.low
            } else {
                low
            },
            high: if around.high == self.high {
                self.high
            } else {
                high
            },
            zeros: match around.zeros < self.zeros {
                true => 0,
                false => around.zeros,
            },
        }
        .settled(width)
    }

    /// Bits that the largest of these numbers has, read as unsigned ones.
    fn bits(self, width: Width) -> u8 {
        let seen = self.view(View::Unsigned, width);
        (128 - seen.high.leading_zeros()) as u8
    }

    pub(crate) fn and(self, other: Interval, width: Width) -> Interval {
        if self.is_empty() || other.is_empty() {
            return Interval::EMPTY;
        }
        let zeros = max(self.zeros, other.zeros);
        let (a, b) = (
            self.view(View::Unsigned, width),
            other.view(View::Unsigned, width),
        );
        if a.is_point() && b.is_point() {
            return Interval::point(a.low & b.low, width);
        }
        let (value, mask) = if a.is_point() { (b, a) } else { (a, b) };
        if mask.is_point() && mask.low == 0 {
            return Interval::point(0, width);
        }
        let cleared = mask.low.trailing_zeros().min(u32::from(width));
        if mask.is_point() && (mask.low >> cleared) + 1 == modulus(width) >> cleared {
            // Multiples of a power of two, by rounding down.
            let value = if a.is_point() { other } else { self };
            return Interval {
                low: value.low >> cleared << cleared,
                high: value.high >> cleared << cleared,
                zeros: max(zeros, cleared as u8),
            }
            .settled(width);
        }
        if mask.is_point() {
            let ones = (!mask.low).trailing_zeros();
            let is_low_mask = mask.low >> ones == 0;
            if is_low_mask && value.low >> ones == value.high >> ones {
                return Interval {
                    low: value.low & mask.low,
                    high: value.high & mask.low,
                    zeros,
                }
                .settled(width);
            }
        }
        let mut high = min(a.high, b.high);
        if zeros > 0 {
            high = high >> zeros << zeros;
        }
        Interval {
            low: 0,
            high,
            zeros,
        }
        .settled(width)
    }

    pub(crate) fn or(self, other: Interval, width: Width) -> Interval {
        if self.is_empty() || other.is_empty() {
            return Interval::EMPTY;
        }
        if self.zeros >= other.bits(width) || other.zeros >= self.bits(width) {
            return self.add(other, width);
        }
        let (a, b) = (
            self.view(View::Unsigned, width),
            other.view(View::Unsigned, width),
        );
        let bits = max(a.bits(width), b.bits(width));
        Interval {
            low: max(a.low, b.low),
            high: (1 << bits) - 1,
            zeros: min(a.zeros, b.zeros),
        }
        .settled(width)
    }

    pub(crate) fn xor(self, other: Interval, width: Width) -> Interval {
        if self.is_empty() || other.is_empty() {
            return Interval::EMPTY;
        }
        if self.zeros >= other.bits(width) || other.zeros >= self.bits(width) {
            return self.add(other, width);
        }
        let bits = max(self.bits(width), other.bits(width));
        Interval {
            low: 0,
            high: (1 << bits) - 1,
            zeros: min(self.zeros, other.zeros),
        }
        .settled(width)
    }

    /// Shifted to the right. Amounts beyond the width shift everything out.
    pub(crate) fn shift_right(self, by: Interval, view: View, width: Width) -> Interval {
        let by = by.view(View::Unsigned, 32);
        if self.is_empty() || by.is_empty() {
            return Interval::EMPTY;
        }
        let seen = self.view(view, width);
        let clamp = |amount: i128| min(amount, i128::from(width)) as u32;
        let (least, most) = (clamp(by.low), clamp(by.high));
        Interval {
            low: min(seen.low >> least, seen.low >> most),
            high: max(seen.high >> least, seen.high >> most),
            zeros: seen.zeros.saturating_sub(most as u8),
        }
        .settled(width)
    }

    /// Shifted to the left.
    pub(crate) fn shift_left(self, by: Interval, width: Width) -> Interval {
        let by = by.view(View::Unsigned, 32);
        if self.is_empty() || by.is_empty() {
            return Interval::EMPTY;
        }
        if !by.is_point() {
            return Interval::full(width).with_zeros(min(self.zeros, width));
        }
        if by.low >= i128::from(width) {
            return Interval::point(0, width);
        }
        let factor = Interval {
            low: 1 << by.low,
            high: 1 << by.low,
            zeros: by.low as u8,
        };
        self.multiply(factor, width)
    }

    pub(crate) fn divide(self, by: Interval, view: View, width: Width) -> Interval {
        if self.is_empty() || by.is_empty() {
            return Interval::EMPTY;
        }
        let (a, b) = (self.view(view, width), by.view(view, width));
        if b.low < 1 {
            // The result of a division by zero is not specified.
            return Interval::full(width);
        }
        let over = |a: i128, b: i128| match (i64::try_from(a), i64::try_from(b)) {
            (Ok(a), Ok(b)) => i128::from(a / b),
            _ => a / b,
        };
        Interval {
            low: min(over(a.low, b.low), over(a.low, b.high)),
            high: max(over(a.high, b.low), over(a.high, b.high)),
            zeros: 0,
        }
        .settled(width)
    }

    pub(crate) fn remainder(self, by: Interval, view: View, width: Width) -> Interval {
        if self.is_empty() || by.is_empty() {
            return Interval::EMPTY;
        }
        let (a, b) = (self.view(view, width), by.view(view, width));
        if b.low < 1 {
            return Interval::full(width);
        }
        if b.is_point() && a.low >= 0 && a.low / b.low == a.high / b.low {
            return Interval::of(a.low % b.low, a.high % b.low, width);
        }
        Interval {
            low: max(min(a.low, 0), 1 - b.high),
            high: min(max(a.high, 0), b.high - 1),
            zeros: 0,
        }
        .settled(width)
    }

    pub(crate) fn min(self, other: Interval, view: View, width: Width) -> Interval {
        let (a, b) = (self.view(view, width), other.view(view, width));
        if a.is_empty() || b.is_empty() {
            return Interval::EMPTY;
        }
        Interval {
            low: min(a.low, b.low),
            high: min(a.high, b.high),
            zeros: min(a.zeros, b.zeros),
        }
        .settled(width)
    }

    pub(crate) fn max(self, other: Interval, view: View, width: Width) -> Interval {
        let (a, b) = (self.view(view, width), other.view(view, width));
        if a.is_empty() || b.is_empty() {
            return Interval::EMPTY;
        }
        Interval {
            low: max(a.low, b.low),
            high: max(a.high, b.high),
            zeros: min(a.zeros, b.zeros),
        }
        .settled(width)
    }

    pub(crate) fn absolute(self, width: Width) -> Interval {
        let seen = self.view(View::Signed, width);
        if seen.is_empty() || seen.low >= 0 {
            return seen;
        }
        Interval {
            low: max(0, -seen.high),
            high: max(-seen.low, seen.high),
            zeros: seen.zeros,
        }
        .settled(width)
    }

    /// Those of which `relation` to some of `limit` holds.
    pub(crate) fn refine(self, relation: Relation, limit: Interval, width: Width) -> Interval {
        if self.is_empty() || limit.is_empty() {
            return Interval::EMPTY;
        }
        let (view, least, most) = match relation {
            Relation::Equal => return self.intersect(limit, width),
            Relation::Differs => return self.without(limit, width),
            Relation::Less(view)
            | Relation::AtMost(view)
            | Relation::Greater(view)
            | Relation::AtLeast(view) => {
                let (least, most) = range(view, width);
                (view, least, most)
            }
        };
        let limit = limit.view(view, width);
        let (low, high) = match relation {
            Relation::Less(_) => (least, limit.high - 1),
            Relation::AtMost(_) => (least, limit.high),
            Relation::Greater(_) => (limit.low + 1, most),
            _ => (limit.low, most),
        };
        if low > high {
            return Interval::EMPTY;
        }
        self.intersect(Interval::of(low, high, width), width)
    }

    /// The differences of one of these and one of `other` that are in `relation`.
    pub(crate) fn distance(self, relation: Relation, other: Interval, width: Width) -> Interval {
        if self.is_empty() || other.is_empty() {
            return Interval::EMPTY;
        }
        let (view, least, most) = match relation {
            Relation::Equal => return Interval::point(0, width),
            Relation::Differs => return Interval::full(width),
            Relation::Less(view) => (view, i128::MIN, -1),
            Relation::AtMost(view) => (view, i128::MIN, 0),
            Relation::Greater(view) => (view, 1, i128::MAX),
            Relation::AtLeast(view) => (view, 0, i128::MAX),
        };
        let (a, b) = (self.view(view, width), other.view(view, width));
        let (low, high) = (max(a.low - b.high, least), min(a.high - b.low, most));
        if low > high {
            return Interval::EMPTY;
        }
        Interval::of(low, high, width)
    }

    fn without(self, limit: Interval, width: Width) -> Interval {
        if !limit.is_point() {
            return self;
        }
        let is = |end: i128| (end - limit.low) & (modulus(width) - 1) == 0;
        let mut this = self;
        if this.high - this.low >= modulus(width) - 1 {
            return this;
        }
        if is(this.low) {
            this.low += 1;
        } else if is(this.high) {
            this.high -= 1;
        }
        this.settled(width)
    }
}

/// Least and largest number of a kind.
pub(crate) fn range(view: View, width: Width) -> (i128, i128) {
    match view {
        View::Signed => (-(modulus(width) >> 1), (modulus(width) >> 1) - 1),
        View::Unsigned => (0, modulus(width) - 1),
    }
}
