//! What a loop carries from one iteration to the next in a way that has no
//! closed form: halves of a range that is searched, a counter that starts again
//! at its end, the index of the best so far.
//!
//! Its range is found at each launch. A range is assumed for each of them; the
//! whole program is evaluated; and the assumption is right if it contains the
//! values at the loop's start and those that an iteration computes from it:
//! then, by induction over the iterations, no other value occurs. An assumption
//! that is too small is widened, one that holds is narrowed to what iterations
//! compute. What is assumed decides how often a proof is found, never whether
//! it is right.

use super::interval::Interval;
use super::parts::Part;
use super::program::{Node, NodeId, Program, Values};
use crate::operation::Width;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A value that a loop carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recurrence {
    /// Its node.
    pub(crate) node: NodeId,
    /// The range when control enters the loop.
    pub(crate) start: NodeId,
    /// The range after an iteration; `None` if there is no way back.
    pub(crate) next: Option<NodeId>,
    /// Ends that the range may have: what it is compared with.
    pub(crate) ends: SmallVec<[NodeId; 2]>,
    pub(crate) width: Width,
}

impl Recurrence {
    /// All nodes that it depends on.
    pub(super) fn operands(&self) -> impl Iterator<Item = NodeId> {
        let (start, next) = (self.start, self.next);
        [start]
            .into_iter()
            .chain(next)
            .chain(self.ends.iter().copied())
    }

    pub(super) fn rename(&mut self, to: impl Fn(NodeId) -> NodeId) {
        self.node = to(self.node);
        self.start = to(self.start);
        self.next = self.next.map(&to);
        for end in &mut self.ends {
            *end = to(*end);
        }
    }

    /// The range that one iteration makes of what was assumed, the start
    /// included.
    fn computed(&self, values: &[Interval]) -> Interval {
        let start = values[self.start as usize];
        match self.next {
            Some(next) => start.hull(values[next as usize], self.width),
            None => start,
        }
    }

    fn is_closed(&self, assumed: Interval, values: &[Interval]) -> bool {
        let mut from = [self.start].into_iter().chain(self.next);
        from.all(|id| assumed.contains(values[id as usize], self.width))
    }
}

/// Evaluations of a program until it counts as not proved.
const ROUNDS: usize = 14;

/// Times that assumptions which hold are narrowed.
const NARROWED: u32 = 2;

/// An assumption.
#[derive(Clone, Copy)]
struct Assumed {
    range: Interval,
    /// How often it was too small.
    grown: u8,
}

impl Assumed {
    /// A larger range, as this one does not contain what iterations compute.
    fn grow(&mut self, recurrence: &Recurrence, values: &[Interval]) {
        let computed = recurrence.computed(values);
        let width = recurrence.width;
        let ends = recurrence.ends.iter().map(|id| values[*id as usize]);
        let has_ends = !recurrence.ends.is_empty();
        self.range = match self.grown {
            _ if self.range.is_empty() => computed,
            // Some are complete after an iteration or two.
            1 | 2 if has_ends => self.range.widened(computed, ends, width),
            0..=2 => self.range.hull(computed, width),
            3 | 4 => self.range.widened(computed, std::iter::empty(), width),
            5 => Interval {
                zeros: self.range.zeros.min(computed.zeros),
                ..Interval::full(width)
            },
            _ => Interval::full(width),
        };
        self.grown = self.grown.saturating_add(1);
    }
}

impl Program {
    /// Evaluates a program with recurrences, until `is_enough` of its values says so. It is
    /// asked of right assumptions only, the widest first. Whether it said so.
    pub(super) fn solve(
        &self,
        part: &Part<'_>,
        inputs: &[Values],
        is_enough: &mut dyn FnMut(&[Interval]) -> bool,
    ) -> bool {
        let mut values: SmallVec<[Interval; 128]> = SmallVec::new();
        let unknown = Assumed {
            range: Interval::EMPTY,
            grown: 0,
        };
        let mut assumed: SmallVec<[Assumed; 8]> =
            SmallVec::from_elem(unknown, self.recurrences.len());
        let mut narrowed = 0;
        for _ in 0..ROUNDS {
            while values.len() < self.nodes.len() {
                let value = match self.nodes[values.len()] {
                    Node::Carried(number, _) => self.carried(number, &mut assumed, &values),
                    node => self.evaluate(node, &values, part, inputs),
                };
                values.push(value);
            }
            let mut is_closed = true;
            let mut first = self.nodes.len();
            for (recurrence, assumed) in self.recurrences.iter().zip(&mut assumed) {
                if !recurrence.is_closed(assumed.range, &values) {
                    is_closed = false;
                    first = first.min(recurrence.node as usize);
                    assumed.grow(recurrence, &values);
                }
            }
            if is_closed {
                if is_enough(&values) {
                    return true;
                }
                narrowed += 1;
                if narrowed > NARROWED {
                    return false;
                }
                for (recurrence, assumed) in self.recurrences.iter().zip(&mut assumed) {
                    let computed = recurrence.computed(&values);
                    if computed != assumed.range {
                        assumed.range = computed;
                        first = first.min(recurrence.node as usize);
                    }
                }
                if first == self.nodes.len() {
                    return false;
                }
            }
            values.truncate(first);
        }
        false
    }

    /// What is assumed of a recurrence: at first, the start, if it is known.
    fn carried(&self, number: u32, assumed: &mut [Assumed], values: &[Interval]) -> Interval {
        let number = number as usize;
        let (Some(recurrence), Some(assumed)) =
            (self.recurrences.get(number), assumed.get_mut(number))
        else {
            return Interval::full(64);
        };
        if assumed.range.is_empty()
            && let Some(start) = values.get(recurrence.start as usize)
        {
            assumed.range = *start;
        }
        assumed.range
    }
}
