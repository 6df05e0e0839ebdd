//! Loops: the range of a phi at a loop's head, computed from its start value,
//! its step (the amount that each iteration adds), and the loop's trip count.
//!
//! After `k` iterations a phi equals its start plus `k` steps, modulo the
//! register's width. Each exit that every iteration passes limits `k`.

use super::affine::{AffineId, Condition, ConditionId, Symbolic, SymbolicId};
use super::compile::Compile;
use super::facts::Context;
use super::program::{Continues, Node, NodeId};
use super::recurrence::Recurrence;
use super::relation::Relation;
use crate::cfg::BlockId;
use crate::code::ValueId;
use crate::loops::Loop;
use crate::operation::{Binary, View, Width};
use crate::ssa::Definition;
use smallvec::SmallVec;

/// Joins inside a loop that are followed to find the step of a phi.
const DEEPEST: u32 = 4;
/// The width of trip counts: wider than any of them.
pub(super) const COUNT: Width = 100;

/// Values that loops carry without a closed form, in one kernel.
const MOST_CARRIED: usize = 48;

/// The range of a phi.
#[derive(Clone, Copy)]
pub(crate) enum Range {
    /// It is being computed.
    Open,
    Known(NodeId),
}

/// A comparison that holds whenever a loop continues.
#[derive(Clone, Copy)]
struct Exit {
    relation: Relation,
    /// The phi that is compared.
    phi: SymbolicId,
    /// The expression that contains the phi, with factor one.
    compared: AffineId,
    limit: AffineId,
    context: Context,
}

/// A phi at the head of a loop.
pub(super) struct Head {
    phi: ValueId,
    symbolic: SymbolicId,
    /// The variable whose address is taken off, if the phi is an address in it.
    variable: Option<SymbolicId>,
    width: Width,
    block: BlockId,
    /// Sources of the edges to the head from outside the loop.
    pub(super) entries: Vec<BlockId>,
    /// Sources of the edges to the head from inside the loop.
    pub(super) latches: Vec<BlockId>,
}

impl Compile<'_, '_, '_> {
    /// The range of a phi.
    pub(crate) fn phi(&mut self, symbolic: SymbolicId, phi: ValueId, width: Width) -> NodeId {
        match self.phis.get(&symbolic) {
            Some(Range::Known(node)) => return *node,
            // It depends on itself.
            Some(Range::Open) => return self.carried(symbolic, width),
            None => {}
        }
        self.phis.insert(symbolic, Range::Open);
        let head = self.head(symbolic, phi, width);
        let computed = match head.latches.is_empty() {
            true => Some(self.start(&head)),
            false => self.loop_phi(&head),
        };
        if computed.is_none() {
            self.carried(symbolic, width);
        }
        let node = match (computed, self.close(&head)) {
            (Some(node), Some(carried)) => self.node(Node::Both(node, carried, width)),
            (Some(node), None) | (None, Some(node)) => node,
            (None, None) => self.node(Node::Full(width)),
        };
        self.phis.insert(symbolic, Range::Known(node));
        node
    }

    /// The node for what a loop carries, which is found at the launch.
    fn carried(&mut self, symbolic: SymbolicId, width: Width) -> NodeId {
        if let Some(number) = self.carried.get(&symbolic) {
            return self.program.recurrences[*number as usize].node;
        }
        if self.program.recurrences.len() >= MOST_CARRIED {
            return self.node(Node::Full(width));
        }
        let number = self.program.recurrences.len() as u32;
        let node = self.node(Node::Carried(number, width));
        let full = self.node(Node::Full(width));
        self.program.recurrences.push(Recurrence {
            node,
            start: full,
            next: None,
            ends: SmallVec::new(),
            width,
        });
        self.carried.insert(symbolic, number);
        node
    }

    /// The operands of a recurrence, if there is one for a phi.
    fn close(&mut self, head: &Head) -> Option<NodeId> {
        let number = *self.carried.get(&head.symbolic)?;
        let start = self.start(head);
        let mut next: Option<NodeId> = None;
        let mut ends = SmallVec::new();
        for &latch in &head.latches {
            let context = self.edge(latch, head.block);
            let value = match self.argument(head, latch) {
                Some(affine) => {
                    self.ends(affine, context, &mut ends);
                    self.value_where(affine, context)
                }
                None => self.node(Node::Full(head.width)),
            };
            next = Some(match next {
                Some(other) => self.node(Node::Hull(other, value, head.width)),
                None => value,
            });
        }
        let recurrence = &mut self.program.recurrences[number as usize];
        (recurrence.start, recurrence.next, recurrence.ends) = (start, next, ends);
        Some(recurrence.node)
    }

    pub(super) fn head(&self, symbolic: SymbolicId, phi: ValueId, width: Width) -> Head {
        let block = self.block_of(phi);
        let (entries, latches) = self.edges(block);
        let variable = match self.expand.expressions.symbolic(symbolic).0 {
            Symbolic::Within(_, variable) => Some(variable),
            _ => None,
        };
        Head {
            phi,
            symbolic,
            variable,
            width,
            block,
            entries,
            latches,
        }
    }

    /// The argument of a phi for an edge.
    pub(super) fn argument(&mut self, head: &Head, from: BlockId) -> Option<AffineId> {
        self.argument_within(head.phi, head.variable, from)
    }

    fn argument_within(
        &mut self,
        phi: ValueId,
        variable: Option<SymbolicId>,
        from: BlockId,
    ) -> Option<AffineId> {
        let affine = self.expand.argument(phi, from)?;
        match variable {
            Some(variable) => self.within(affine, variable),
            None => Some(affine),
        }
    }

    /// The block that defines a value.
    fn block_of(&self, value: ValueId) -> BlockId {
        self.analysis().ssa.values[value.0 as usize].block
    }

    /// Edges into a block: from outside, and from blocks that it dominates.
    fn edges(&self, block: BlockId) -> (Vec<BlockId>, Vec<BlockId>) {
        let analysis = self.analysis();
        analysis.cfg.blocks[block.0 as usize]
            .predecessors
            .iter()
            .copied()
            .filter(|&from| analysis.cfg.is_reachable(from))
            .partition(|&from| !analysis.dominators.dominates(block, from))
    }

    /// The range of a phi when control enters the loop from outside.
    fn start(&mut self, head: &Head) -> NodeId {
        let mut joined: Option<NodeId> = None;
        for &from in &head.entries {
            let Some(affine) = self.argument(head, from) else {
                return self.node(Node::Full(head.width));
            };
            let context = self.edge(from, head.block);
            let value = self.value_where(affine, context);
            joined = Some(match joined {
                Some(other) => self.node(Node::Hull(other, value, head.width)),
                None => value,
            });
        }
        joined.unwrap_or_else(|| self.node(Node::Full(head.width)))
    }

    /// The range of a phi at the head of a loop.
    fn loop_phi(&mut self, head: &Head) -> Option<NodeId> {
        let width = head.width;
        let start = self.start(head);
        if let Some(view) = self.shrinks(head) {
            return Some(self.node(Node::Shrinks(view, start, width)));
        }
        let step = self.step(head)?;
        let trips = self.trips(head.block)?;
        let added = self.node(Node::Binary(Binary::Multiply, step, trips, width));
        let later = self.sum_node(&[(start, 1), (added, 1)], 0, width);
        // If the back edge is never taken, the step is empty, but the phi
        // still has its start value.
        let mut node = self.node(Node::Hull(start, later, width));
        for exit in self.exits(head.block) {
            if let Some(all) = self.unless_left(head, &exit, (start, step)) {
                node = self.node(Node::Both(node, all, width));
            }
        }
        Some(node)
    }

    /// The range of a phi, limited by the comparison that an exit made in the
    /// iteration before.
    fn unless_left(
        &mut self,
        head: &Head,
        exit: &Exit,
        (start, step): (NodeId, NodeId),
    ) -> Option<NodeId> {
        let width = head.width;
        let compared = self.expand.expressions.affine(exit.compared).clone();
        if exit.phi != head.symbolic || compared.width != width {
            return None;
        }
        let mut shift = compared.clone();
        shift.terms.retain(|(other, _)| *other != head.symbolic);
        // The distance from the compared value to the next iteration's phi.
        let mut next: Option<NodeId> = None;
        for &latch in &head.latches {
            let affine = self.argument(head, latch)?;
            let expressions = &mut self.expand.expressions;
            let distance = expressions.affine(affine).plus(&compared, -1);
            let distance = if distance.factor(head.symbolic) == 0 {
                let id = expressions.keep(distance);
                let context = self.edge(latch, head.block);
                self.value(id, context)
            } else {
                let shift = expressions.keep(shift.clone());
                let shift = self.value(shift, exit.context);
                self.sum_node(&[(step, 1), (shift, -1)], 0, width)
            };
            next = Some(match next {
                Some(other) => self.node(Node::Hull(other, distance, width)),
                None => distance,
            });
        }
        let next = next?;
        let shift = self.expand.expressions.keep(shift);
        let shift = self.value(shift, exit.context);
        let limit = self.value(exit.limit, exit.context);
        let staying = self.node(Node::Staying(Continues {
            relation: exit.relation,
            start,
            shift,
            step,
            limit,
            width,
        }));
        let later = self.sum_node(&[(staying, 1), (next, 1)], 0, width);
        Some(self.node(Node::Hull(start, later, width)))
    }

    /// The amount that one iteration adds to a phi.
    fn step(&mut self, head: &Head) -> Option<NodeId> {
        let mut step: Option<NodeId> = None;
        for &latch in &head.latches {
            let affine = self.argument(head, latch)?;
            let context = self.edge(latch, head.block);
            let own = self.distance(head.symbolic, affine, context, head.width, 0)?;
            step = Some(match step {
                Some(other) => self.node(Node::Hull(other, own, head.width)),
                None => own,
            });
        }
        step
    }

    /// The difference between a value and the phi that it was computed from.
    fn distance(
        &mut self,
        phi: SymbolicId,
        affine: AffineId,
        context: Context,
        width: Width,
        depth: u32,
    ) -> Option<NodeId> {
        let mut rest = self.expand.expressions.affine(affine).clone();
        if rest.width != width || depth > DEEPEST {
            return None;
        }
        if rest.factor(phi) == 1 {
            rest.terms.retain(|(other, _)| *other != phi);
            let rest = self.expand.expressions.keep(rest);
            return Some(self.value(rest, context));
        }
        // A phi or a select whose inputs were computed from it.
        let [(symbolic, 1)] = rest.terms[..] else {
            return None;
        };
        let constant = rest.constant;
        let (a, b) = match self.expand.expressions.symbolic(symbolic).0 {
            Symbolic::Select(_, a, b) => {
                let a = self.distance(phi, a, context, width, depth + 1)?;
                let b = self.distance(phi, b, context, width, depth + 1)?;
                (a, b)
            }
            Symbolic::Phi(inner) | Symbolic::Within(inner, _) => {
                let variable = match self.expand.expressions.symbolic(symbolic).0 {
                    Symbolic::Within(_, variable) => Some(variable),
                    _ => None,
                };
                let block = self.block_of(inner);
                let (entries, latches) = self.edges(block);
                if !latches.is_empty() {
                    return None;
                }
                let mut hull: Option<NodeId> = None;
                for from in entries {
                    let affine = self.argument_within(inner, variable, from)?;
                    let edge = self.edge(from, block);
                    let own = self.distance(phi, affine, edge, width, depth + 1)?;
                    hull = Some(match hull {
                        Some(other) => self.node(Node::Hull(other, own, width)),
                        None => own,
                    });
                }
                let hull = hull?;
                (hull, hull)
            }
            _ => return None,
        };
        let hull = self.node(Node::Hull(a, b, width));
        Some(self.sum_node(&[(hull, 1)], constant, width))
    }

    /// Whether every iteration shifts a phi to the right, or divides it.
    fn shrinks(&mut self, head: &Head) -> Option<View> {
        let mut view = None;
        for &latch in &head.latches {
            let affine = self.argument(head, latch)?;
            let affine = self.expand.expressions.affine(affine);
            let ([(next, 1)], 0) = (&affine.terms[..], affine.constant) else {
                return None;
            };
            let (own, from) = match self.expand.expressions.symbolic(*next).0 {
                Symbolic::Binary(Binary::ShiftRight(view), from, _) => (view, from),
                Symbolic::Binary(Binary::Divide(view), from, by)
                    if self.expand.expressions.affine(by).as_constant() >= Some(1) =>
                {
                    (view, from)
                }
                _ => return None,
            };
            let from = self.expand.expressions.affine(from);
            let is_phi = matches!(from.terms[..], [(other, 1)] if other == head.symbolic);
            if !is_phi || from.constant != 0 || view.is_some_and(|view| view != own) {
                return None;
            }
            view = Some(own);
        }
        view
    }

    /// From zero to a loop's trip count: how often its back edges are taken.
    pub(super) fn trips(&mut self, block: BlockId) -> Option<NodeId> {
        if let Some(known) = self.trips.get(&block) {
            return *known;
        }
        self.trips.insert(block, None);
        let mut trips: Option<NodeId> = None;
        for exit in self.exits(block) {
            let (Symbolic::Phi(phi), phi_width) = self.expand.expressions.symbolic(exit.phi) else {
                continue;
            };
            let mut shift = self.expand.expressions.affine(exit.compared).clone();
            shift.terms.retain(|(other, _)| *other != exit.phi);
            let width = shift.width;
            if phi_width != width {
                continue;
            }
            let head = self.head(exit.phi, phi, width);
            let start = self.start(&head);
            let Some(step) = self.step(&head) else {
                continue;
            };
            let shift = self.expand.expressions.keep(shift);
            let shift = self.value(shift, exit.context);
            let limit = self.value(exit.limit, exit.context);
            let own = self.node(Node::Trips(Continues {
                relation: exit.relation,
                start,
                shift,
                step,
                limit,
                width,
            }));
            trips = Some(match trips {
                Some(other) => self.node(Node::Binary(
                    Binary::Minimum(View::Unsigned),
                    other,
                    own,
                    COUNT,
                )),
                None => own,
            });
        }
        self.trips.insert(block, trips);
        trips
    }

    /// The loop with this head.
    pub(super) fn loop_at(&self, head: BlockId) -> Option<Loop> {
        let mut loops = self.loops.loops.iter();
        loops.find(|natural| natural.header == head).cloned()
    }

    /// The phis of a loop's head that its exits compare.
    pub(super) fn tested(&mut self, head: BlockId) -> Vec<SymbolicId> {
        let mut tested: Vec<SymbolicId> = self.exits(head).iter().map(|exit| exit.phi).collect();
        tested.dedup();
        tested
    }

    /// The comparisons of phis of a loop's head that hold in every iteration
    /// that another one follows.
    fn exits(&mut self, head: BlockId) -> Vec<Exit> {
        let analysis = self.analysis();
        let Some(natural) = self.loop_at(head) else {
            return Vec::new();
        };
        let (_, latches) = self.edges(head);
        let mut exits = Vec::new();
        for &block in &natural.blocks {
            let always = latches
                .iter()
                .all(|&latch| analysis.dominators.dominates(block, latch));
            if !always {
                continue;
            }
            let successors = &analysis.cfg.blocks[block.0 as usize].successors;
            let inside = |to: &&BlockId| natural.blocks.binary_search(*to).is_ok();
            let continues: Vec<BlockId> = successors.iter().filter(inside).copied().collect();
            // `@p exit` leaves by an edge that the graph does not have.
            let leaves = continues.len() < successors.len() || successors.len() == 1;
            let &[to] = continues.as_slice() else {
                continue;
            };
            if !leaves {
                continue;
            }
            if let Some((condition, holds)) = self.branch(block, to) {
                let context = self.context(block);
                self.comparisons(condition, holds, head, &natural, context, 0, &mut exits);
            }
        }
        exits
    }

    #[expect(clippy::too_many_arguments, reason = "a recursion over one condition")]
    fn comparisons(
        &self,
        condition: ConditionId,
        holds: bool,
        head: BlockId,
        natural: &Loop,
        context: Context,
        depth: u32,
        exits: &mut Vec<Exit>,
    ) {
        if depth > DEEPEST {
            return;
        }
        match (self.expand.expressions.condition(condition), holds) {
            (Condition::Not(inner), _) => {
                self.comparisons(inner, !holds, head, natural, context, depth + 1, exits);
            }
            (Condition::And(a, b), true) | (Condition::Or(a, b), false) => {
                self.comparisons(a, holds, head, natural, context, depth + 1, exits);
                self.comparisons(b, holds, head, natural, context, depth + 1, exits);
            }
            (Condition::Compare(relation, a, b), _) => {
                let relation = if holds { relation } else { relation.negated() };
                for (relation, a, b) in [(relation, a, b), (relation.mirrored(), b, a)] {
                    let affine = self.expand.expressions.affine(a);
                    let phis: Vec<SymbolicId> = affine
                        .terms
                        .iter()
                        .filter(|(symbolic, factor)| {
                            *factor == 1 && self.is_phi_of(*symbolic, head)
                        })
                        .map(|(symbolic, _)| *symbolic)
                        .collect();
                    let &[phi] = phis.as_slice() else { continue };
                    // All other terms must be the same in every iteration: see
                    // `Continues`.
                    let rest_is_fixed = affine
                        .terms
                        .iter()
                        .all(|(symbolic, _)| *symbolic == phi || self.is_fixed(*symbolic, natural));
                    let limit_is_fixed = self
                        .expand
                        .expressions
                        .support(b)
                        .iter()
                        .all(|symbolic| self.is_fixed(*symbolic, natural));
                    if rest_is_fixed && limit_is_fixed {
                        exits.push(Exit {
                            relation,
                            phi,
                            compared: a,
                            limit: b,
                            context,
                        });
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn is_phi_of(&self, symbolic: SymbolicId, head: BlockId) -> bool {
        matches!(self.expand.expressions.symbolic(symbolic).0, Symbolic::Phi(phi) if self.block_of(phi) == head)
    }

    /// Whether a symbol has the same value in every iteration of a loop.
    pub(super) fn is_fixed(&self, symbolic: SymbolicId, natural: &Loop) -> bool {
        let is_inside = |value: ValueId| {
            self.expand.definition_of(value) != Definition::Undefined
                && natural.blocks.binary_search(&self.block_of(value)).is_ok()
        };
        let expressions = &self.expand.expressions;
        let mut leaves = expressions.symbolic_support(symbolic).iter();
        leaves.all(|leaf| match expressions.symbolic(*leaf).0 {
            Symbolic::Parameter { .. }
            | Symbolic::Special(_)
            | Symbolic::Symbol(_)
            | Symbolic::Generic(_) => true,
            Symbolic::Between(value, ..)
            | Symbolic::Opaque(value)
            | Symbolic::Phi(value)
            | Symbolic::Within(value, _) => !is_inside(value),
            _ => false,
        })
    }
}
