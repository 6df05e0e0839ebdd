//! Values that a loop moves in step: where it carries an address beside the
//! index that it tests, the address is a multiple of the index, and what limits
//! the index limits the address.
//!
//! Such a value is expressed by the one that the loop tests: its start, plus so
//! many times the distance of the other from its own start. In registers of one
//! width this holds however they wrap. Where the tested one is narrower, it must
//! not wrap in the loop, which is decided at the launch.

use super::affine::{Affine, AffineId, Symbolic, SymbolicId};
use super::compile::Compile;
use super::facts::Context;
use super::program::{Node, NodeId};
use crate::cfg::BlockId;
use crate::loops::Loop;
use crate::operation::{View, Width};

/// A value of a loop, expressed by another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sibling {
    /// The phi that the loop tests.
    pub(crate) tested: SymbolicId,
    /// The value.
    same: AffineId,
    /// It is the value if the tested one, which is narrower, does not wrap.
    narrow: Option<Narrow>,
}

/// A tested value that is narrower.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    view: View,
    start: AffineId,
    step: AffineId,
    block: BlockId,
}

/// A phi that moves by the same step in every iteration.
struct Linear {
    start: Affine,
    step: Affine,
}

impl Compile<'_, '_, '_> {
    /// Finds the siblings of the phis that a value is made of, before facts that
    /// may limit it are looked for.
    pub(super) fn find_siblings(&mut self, leaves: &[SymbolicId]) {
        for &leaf in leaves {
            if self.siblings.contains_key(&leaf) {
                continue;
            }
            let kind = self.expand.expressions.symbolic(leaf).0;
            if let Symbolic::Phi(phi) | Symbolic::Within(phi, _) = kind {
                self.siblings.insert(leaf, None);
                let block = self.analysis().ssa.values[phi.0 as usize].block;
                let sibling = self.sibling(leaf, block);
                self.siblings.insert(leaf, sibling);
            }
        }
    }

    fn sibling(&mut self, symbolic: SymbolicId, block: BlockId) -> Option<Sibling> {
        let natural = self.loop_at(block)?;
        let tested: Vec<SymbolicId> = self.tested(block);
        if tested.contains(&symbolic) {
            return None;
        }
        let own = self.linear(symbolic, &natural)?;
        tested.into_iter().find_map(|other| {
            let tested = self.linear(other, &natural)?;
            self.expressed(&own, (other, &tested), block)
        })
    }

    /// `own` by the tested phi.
    fn expressed(
        &mut self,
        own: &Linear,
        (other, tested): (SymbolicId, &Linear),
        block: BlockId,
    ) -> Option<Sibling> {
        let (width, narrower) = (own.start.width, tested.start.width);
        if width == narrower {
            let times = ratio(&own.step, &tested.step)?;
            let mut same = own.start.plus(&tested.start, times.wrapping_neg());
            same = same.plus(&one(other, width), times);
            return Some(Sibling {
                tested: other,
                same: self.expand.expressions.keep(same),
                narrow: None,
            });
        }
        if narrower > width {
            return None;
        }
        let start = self.expand.expressions.keep(tested.start.clone());
        let step = self.expand.expressions.keep(tested.step.clone());
        let value = self.expand.expressions.keep(one(other, narrower));
        [View::Signed, View::Unsigned].into_iter().find_map(|view| {
            let mut wide = |affine| {
                let wide = self.expand.extended(view, affine, narrower, width);
                self.expand.expressions.affine(wide).clone()
            };
            let times = ratio(&own.step, &wide(step))?;
            let mut same = own.start.plus(&wide(start), times.wrapping_neg());
            same = same.plus(&wide(value), times);
            Some(Sibling {
                tested: other,
                same: self.expand.expressions.keep(same),
                narrow: Some(Narrow {
                    view,
                    start,
                    step,
                    block,
                }),
            })
        })
    }

    /// Start and step of a phi at the head of a loop.
    fn linear(&mut self, symbolic: SymbolicId, natural: &Loop) -> Option<Linear> {
        let (kind, width) = self.expand.expressions.symbolic(symbolic);
        let (Symbolic::Phi(phi) | Symbolic::Within(phi, _)) = kind else {
            return None;
        };
        let head = self.head(symbolic, phi, width);
        let mut start = None;
        for &from in &head.entries {
            let affine = self.argument(&head, from)?;
            if *start.get_or_insert(affine) != affine {
                return None;
            }
        }
        let mut step: Option<Affine> = None;
        for &latch in &head.latches {
            let next = self.argument(&head, latch)?;
            let own = self.expand.expressions.affine(next).clone();
            let own = own.plus(&one(symbolic, width), -1);
            if step.get_or_insert_with(|| own.clone()) != &own {
                return None;
            }
        }
        let (start, step) = (start?, step?);
        let steps = self.expand.expressions.keep(step.clone());
        if self.is_undefined(start) || self.is_undefined(steps) {
            return None;
        }
        let start = self.expand.expressions.affine(start).clone();
        let mut fixed = step.terms.iter().chain(&start.terms);
        let is_linear = start.width == width
            && step.width == width
            && fixed.all(|(term, _)| self.is_fixed(*term, natural));
        is_linear.then_some(Linear { start, step })
    }

    /// Limits the range of a phi by that of its sibling.
    pub(super) fn by_sibling(
        &mut self,
        symbolic: SymbolicId,
        node: NodeId,
        context: Context,
        width: Width,
    ) -> NodeId {
        let Some(Some(sibling)) = self.siblings.get(&symbolic).copied() else {
            return node;
        };
        let mut same = self.value(sibling.same, context);
        if let Some(narrow) = sibling.narrow {
            let Some(trips) = self.trips(narrow.block) else {
                return node;
            };
            let (start, step) = (
                self.value(narrow.start, None),
                self.value(narrow.step, None),
            );
            let bits = self.expand.expressions.affine(narrow.start).width;
            let steady = self.node(Node::Steady(narrow.view, start, step, trips, bits));
            let unknown = self.node(Node::Full(width));
            let or_else = self.node(Node::Otherwise(unknown, steady));
            same = self.node(Node::Hull(same, or_else, width));
        }
        self.node(Node::Both(node, same, width))
    }
}

/// How many times one step is another.
fn ratio(step: &Affine, of: &Affine) -> Option<i64> {
    let times = match (step.terms.first(), of.terms.first()) {
        (None, None) => step.constant.checked_div(of.constant)?,
        (Some((a, times)), Some((b, factor))) if a == b => times.checked_div(*factor)?,
        _ => return None,
    };
    (times != 0 && of.times(times) == *step).then_some(times)
}

/// One symbol.
fn one(symbolic: SymbolicId, width: Width) -> Affine {
    let mut affine = Affine::constant(0, width);
    affine.terms.push((symbolic, 1));
    affine
}
