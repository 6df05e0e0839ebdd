//! Values that a loop moves in step: where it carries an address beside the
//! index that it tests, the address is a multiple of the index, and what limits
//! the index limits the address.
//!
//! Such a value is expressed by the one that the loop tests: its start, plus so
//! many times the distance of the other from its own start. In registers of one
//! width this holds however they wrap. Where the tested one is narrower, it must
//! not wrap in the loop, which is decided at the launch. The same is done with what
//! branches inside the loop compare (`if (0 <= i && i < n)`), as that limits the index
//! where the access is.

use super::affine::{Affine, AffineId, Condition, ConditionId, Symbolic, SymbolicId};
use super::compile::Compile;
use super::facts::Context;
use super::program::{Node, NodeId};
use crate::cfg::BlockId;
use crate::loops::Loop;
use crate::operation::{View, Width};
use smallvec::SmallVec;

/// Values of a loop by which another one is expressed, beside one that it tests.
const MOST_COMPARED: usize = 2;
/// Conditions in conditions that are followed.
const DEEPEST: u32 = 4;

/// All that one value is expressed by.
pub(crate) type Siblings = SmallVec<[Sibling; 1]>;

/// A value of a loop, expressed by another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sibling {
    /// The phi that the loop tests, or that it compares.
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
                self.siblings.insert(leaf, Siblings::new());
                let block = self.analysis().ssa.values[phi.0 as usize].block;
                let siblings = self.siblings_of(leaf, block);
                self.siblings.insert(leaf, siblings);
            }
        }
    }

    fn siblings_of(&mut self, symbolic: SymbolicId, block: BlockId) -> Siblings {
        let Some(natural) = self.loop_at(block) else {
            return Siblings::new();
        };
        let tested: Vec<SymbolicId> = self.tested(block);
        if tested.contains(&symbolic) {
            return Siblings::new();
        }
        let Some(own) = self.linear(symbolic, &natural) else {
            return Siblings::new();
        };
        let by = |compile: &mut Self, other: SymbolicId| {
            let tested = compile.linear(other, &natural)?;
            compile.expressed(&own, (other, &tested), block)
        };
        let mut tested = tested.into_iter();
        let mut siblings: Siblings = tested
            .find_map(|other| by(self, other))
            .into_iter()
            .collect();
        let compared = self.compared_phis(block, &natural);
        // (What is compared itself is not expressed by others of its kind, and they by it.)
        if !compared.contains(&symbolic) {
            let others = compared.into_iter();
            siblings.extend(
                others
                    .filter_map(|other| by(self, other))
                    .take(MOST_COMPARED),
            );
        }
        siblings
    }

    /// The phis of a loop's head that branches inside of it compare.
    fn compared_phis(&mut self, head: BlockId, natural: &Loop) -> Vec<SymbolicId> {
        if let Some(known) = self.compared_phis.get(&head) {
            return known.clone();
        }
        let tested = self.tested(head);
        let mut phis = Vec::new();
        for &block in &natural.blocks {
            let successors = &self.analysis().cfg.blocks[block.0 as usize].successors;
            if let &[to, _] = &successors[..]
                && let Some((condition, _)) = self.branch(block, to)
            {
                self.phis_in(condition, head, 0, &mut phis);
            }
        }
        phis.retain(|phi| !tested.contains(phi));
        phis.sort_unstable();
        phis.dedup();
        self.compared_phis.insert(head, phis.clone());
        phis
    }

    fn phis_in(
        &self,
        condition: ConditionId,
        head: BlockId,
        depth: u32,
        phis: &mut Vec<SymbolicId>,
    ) {
        let expressions = &self.expand.expressions;
        match expressions.condition(condition) {
            _ if depth > DEEPEST => {}
            Condition::Not(inner) => self.phis_in(inner, head, depth + 1, phis),
            Condition::And(a, b) | Condition::Or(a, b) => {
                self.phis_in(a, head, depth + 1, phis);
                self.phis_in(b, head, depth + 1, phis);
            }
            Condition::Compare(_, a, b) => {
                let both = [a, b].map(|side| &expressions.affine(side).terms);
                let terms = both.into_iter().flatten();
                let own = terms.filter(|(phi, _)| self.is_phi_of(*phi, head));
                phis.extend(own.map(|(phi, _)| *phi));
            }
            _ => {}
        }
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
        let step = self.expand.expressions.keep(tested.step.clone());
        [View::Signed, View::Unsigned].into_iter().find_map(|view| {
            let ahead = self.ahead(own, tested, view);
            let start = tested.start.plus(&ahead, 1);
            let value = one(other, narrower).plus(&ahead, 1);
            let start = self.expand.expressions.keep(start);
            let value = self.expand.expressions.keep(value);
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

    /// How far what `own` begins with is from the start of the tested phi, if that is a
    /// constant: of `p + i` and `i + 3` it is the index before the constant is added that
    /// is extended, and must not wrap.
    fn ahead(&self, own: &Linear, tested: &Linear, view: View) -> Affine {
        let expressions = &self.expand.expressions;
        let width = tested.start.width;
        let distance = own.start.terms.iter().find_map(|(term, _)| {
            let Symbolic::Extend(own, from, narrow) = expressions.symbolic(*term).0 else {
                return None;
            };
            let is_it = own == view && from == width;
            let distance = expressions.affine(narrow).plus(&tested.start, -1);
            (is_it && distance.terms.is_empty()).then_some(distance)
        });
        distance.unwrap_or_else(|| Affine::constant(0, width))
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

    /// Limits the range of a phi by those of its siblings.
    pub(super) fn by_sibling(
        &mut self,
        symbolic: SymbolicId,
        node: NodeId,
        context: Context,
        width: Width,
    ) -> NodeId {
        let siblings = self.siblings.get(&symbolic).cloned();
        let siblings = siblings.unwrap_or_default().into_iter();
        siblings.fold(node, |node, sibling| {
            self.by(&sibling, node, context, width)
        })
    }

    fn by(&mut self, sibling: &Sibling, node: NodeId, context: Context, width: Width) -> NodeId {
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
