//! The interval arithmetic against all members of small sets, and ends that
//! have gone wrong in other analyses.

use super::interval::Interval;
use super::relation::Relation;
use crate::operation::{View, Width};
use proptest::prelude::*;

const WIDTH: Width = 6;
const SIZE: i128 = 1 << WIDTH;

fn interval() -> impl Strategy<Value = Interval> {
    (0..SIZE, 0..SIZE).prop_map(|(low, span)| Interval::of(low, low + span, WIDTH))
}

type Holds = fn(i128, i128) -> bool;
type Operation = fn(i128, i128) -> i128;

/// Its members, from 0 to 63.
fn members(interval: Interval) -> Vec<i128> {
    if interval.is_empty() {
        return Vec::new();
    }
    (0..SIZE)
        .filter(|member| {
            (interval.low..=interval.high).any(|integer| integer & (SIZE - 1) == *member)
        })
        .collect()
}

fn seen(member: i128, view: View) -> i128 {
    match view {
        View::Signed if member >= SIZE / 2 => member - SIZE,
        _ => member,
    }
}

fn view() -> impl Strategy<Value = View> {
    prop_oneof![Just(View::Signed), Just(View::Unsigned)]
}

/// Every result for members must be a member of the result.
fn covers(
    a: Interval,
    b: Interval,
    result: Interval,
    operation: impl Fn(i128, i128) -> i128,
) -> Result<(), TestCaseError> {
    let inside = members(result);
    for x in members(a) {
        for y in members(b) {
            let value = operation(x, y) & (SIZE - 1);
            prop_assert!(
                inside.contains(&value),
                "{x}, {y} give {value}, not in {result:?} of {a:?} and {b:?}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arithmetic_covers_all_members(a in interval(), b in interval(), view in view()) {
        let on = |f: fn(i128, i128) -> i128| move |x, y| f(seen(x, view), seen(y, view));
        covers(a, b, a.add(b, WIDTH), |x, y| x + y)?;
        covers(a, b, a.negate(WIDTH), |x, _| -x)?;
        covers(a, b, a.multiply(b, WIDTH), |x, y| x * y)?;
        covers(a, b, a.and(b, WIDTH), |x, y| x & y)?;
        covers(a, b, a.or(b, WIDTH), |x, y| x | y)?;
        covers(a, b, a.xor(b, WIDTH), |x, y| x ^ y)?;
        covers(a, b, a.min(b, view, WIDTH), on(|x, y| x.min(y)))?;
        covers(a, b, a.max(b, view, WIDTH), on(|x, y| x.max(y)))?;
        covers(a, b, a.absolute(WIDTH), |x, _| seen(x, View::Signed).abs())?;
        covers(a, b, a.hull(b, WIDTH), |x, _| x)?;
        covers(a, b, a.hull(b, WIDTH), |_, y| y)?;
        covers(a, b, a.scale(-4, WIDTH), |x, _| x * -4)?;
        if !members(b).contains(&0) {
            covers(a, b, a.divide(b, view, WIDTH), on(|x, y| x / y))?;
            covers(a, b, a.remainder(b, view, WIDTH), on(|x, y| x % y))?;
        }
    }

    #[test]
    fn shifts_cover_all_members(a in interval(), by in 0..9i128, more in 0..3i128, view in view()) {
        let amount = Interval::of(by, by + more, 32);
        let inside = members(a.shift_right(amount, view, WIDTH));
        for x in members(a) {
            for y in by..=by + more {
                prop_assert!(inside.contains(&((seen(x, view) >> y) & (SIZE - 1))));
            }
        }
        let inside = members(a.shift_left(Interval::point(by, 32), WIDTH));
        for x in members(a) {
            prop_assert!(inside.contains(&((x << by) & (SIZE - 1))));
        }
    }

    #[test]
    fn refinement_keeps_what_can_hold(a in interval(), b in interval(), view in view()) {
        let relations: [(Relation, Holds); 6] = [
            (Relation::Equal, |x, y| x == y),
            (Relation::Differs, |x, y| x != y),
            (Relation::Less(view), |x, y| x < y),
            (Relation::AtMost(view), |x, y| x <= y),
            (Relation::Greater(view), |x, y| x > y),
            (Relation::AtLeast(view), |x, y| x >= y),
        ];
        for (relation, holds) in relations {
            let inside = members(a.refine(relation, b, WIDTH));
            for x in members(a) {
                let may = members(b).iter().any(|y| holds(seen(x, view), seen(*y, view)));
                prop_assert!(!may || inside.contains(&x), "{x} {relation:?} {b:?}");
            }
        }
        let inside = members(a.intersect(b, WIDTH));
        for x in members(a) {
            prop_assert!(!members(b).contains(&x) || inside.contains(&x));
        }
    }

    #[test]
    fn distances_cover_all_pairs_in_a_relation(a in interval(), b in interval(), view in view()) {
        let relations: [(Relation, Holds); 6] = [
            (Relation::Equal, |x, y| x == y),
            (Relation::Differs, |x, y| x != y),
            (Relation::Less(view), |x, y| x < y),
            (Relation::AtMost(view), |x, y| x <= y),
            (Relation::Greater(view), |x, y| x > y),
            (Relation::AtLeast(view), |x, y| x >= y),
        ];
        for (relation, holds) in relations {
            let inside = members(a.distance(relation, b, WIDTH));
            for x in members(a) {
                for y in members(b) {
                    let apart = (x - y) & (SIZE - 1);
                    prop_assert!(!holds(seen(x, view), seen(y, view)) || inside.contains(&apart));
                }
            }
        }
    }

    #[test]
    fn what_contains_another_has_its_members(a in interval(), b in interval()) {
        let (outer, inner) = (members(a), members(b));
        prop_assert_eq!(a.contains(b, WIDTH), inner.iter().all(|member| outer.contains(member)));
    }

    #[test]
    fn what_is_widened_contains_both(a in interval(), b in interval(), c in interval()) {
        for ends in [vec![], vec![c], vec![c, b]] {
            let wide = a.widened(b, ends.into_iter(), WIDTH);
            prop_assert!(wide.contains(a, WIDTH) && wide.contains(b, WIDTH), "{wide:?}");
        }
    }

    #[test]
    fn masks_of_any_kind_cover_all_members(a in interval(), mask in 0..SIZE) {
        covers(a, Interval::point(mask, WIDTH), a.and(Interval::point(mask, WIDTH), WIDTH), |x, y| x & y)?;
    }

    #[test]
    fn extensions_cover_all_members(a in interval(), view in view()) {
        let wide = a.extend(view, WIDTH, 10);
        for x in members(a) {
            let value = seen(x, view);
            prop_assert!((wide.low..=wide.high).any(|w| (w - value) & 1023 == 0));
        }
    }

    #[test]
    fn known_zeros_are_zeros(a in interval(), b in interval(), factor in prop_oneof![Just(1i64), Just(2), Just(4), Just(-8)]) {
        let (scaled, other) = (a.scale(factor, WIDTH), b.scale(4, WIDTH));
        let results: [(Interval, Operation); 4] = [
            (scaled.add(other, WIDTH), |x, y| x + y),
            (scaled.multiply(other, WIDTH), |x, y| x * y),
            (scaled.and(other, WIDTH), |x, y| x & y),
            (scaled.or(other, WIDTH), |x, y| x | y),
        ];
        for (result, operation) in results {
            for x in members(a) {
                for y in members(b) {
                    let value = operation(x * i128::from(factor), y * 4);
                    prop_assert_eq!(value & ((1 << result.zeros.min(WIDTH)) - 1), 0);
                }
            }
        }
    }
}

#[test]
fn the_whole_range_stays_the_whole_range() {
    let full = Interval::full(32);
    assert_eq!(full.add(Interval::point(1, 32), 32), full);
    assert_eq!(full.view(View::Unsigned, 32).high, u32::MAX.into());
    let wide = full.extend(View::Unsigned, 32, 64);
    assert_eq!((wide.low, wide.high), (0, u32::MAX.into()));
}
