//! Loops: what a phi at a loop's head can be, from where it starts, what each
//! round adds, and how often the loop can go round.
//!
//! After `k` rounds a phi is its start plus `k` steps, whatever the register
//! wraps; how large `k` gets is told by every exit that each round passes.

use super::compile::{Compile, Context};
use super::form::{Atom, AtomId, Condition, ConditionId, FormId};
use super::interval::{Relation, View, Width};
use super::program::{Binary, Node, NodeId, Stays};
use crate::cfg::BlockId;
use crate::loops::Loop;
use crate::names::Register;
use crate::registers::Reaching;

/// Joins inside a loop that are followed to find what a round adds.
const DEEPEST: u32 = 4;
/// Wider than any count of rounds.
const COUNT: Width = 100;

/// A comparison that holds whenever a loop stays.
#[derive(Clone, Copy)]
struct Exit {
    relation: Relation,
    /// The phi that is compared.
    phi: AtomId,
    /// Its factor is one.
    compared: FormId,
    limit: FormId,
    context: Context,
}

impl Compile<'_, '_, '_> {
    /// What a phi can be.
    pub(crate) fn phi(
        &mut self,
        atom: AtomId,
        register: Register,
        block: BlockId,
        width: Width,
    ) -> NodeId {
        match self.phis.get(&atom) {
            Some(Some(node)) => return *node,
            // It depends on itself in a way that is not followed.
            Some(None) => return self.node(Node::Full(width)),
            None => {}
        }
        self.phis.insert(atom, None);
        let (entries, latches) = self.edges(block);
        let node = if latches.is_empty() {
            self.joined(register, block, &entries, width)
        } else {
            self.head(atom, register, block, &entries, &latches, width)
                .unwrap_or_else(|| self.node(Node::Full(width)))
        };
        self.phis.insert(atom, Some(node));
        node
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

    fn joined(
        &mut self,
        register: Register,
        block: BlockId,
        entries: &[BlockId],
        width: Width,
    ) -> NodeId {
        let mut joined: Option<NodeId> = None;
        for &from in entries {
            let reaching = self.expand.at_end(register, from);
            let form = self.expand.value(reaching);
            let context = self.edge(from, block);
            let value = self.value_where(form, context);
            joined = Some(match joined {
                Some(other) => self.node(Node::Hull(other, value, width)),
                None => value,
            });
        }
        joined.unwrap_or_else(|| self.node(Node::Full(width)))
    }

    fn head(
        &mut self,
        atom: AtomId,
        register: Register,
        block: BlockId,
        entries: &[BlockId],
        latches: &[BlockId],
        width: Width,
    ) -> Option<NodeId> {
        let start = self.joined(register, block, entries, width);
        if let Some(view) = self.shrinks(atom, register, latches) {
            return Some(self.node(Node::Shrinks(view, start, width)));
        }
        let step = self.step(atom, register, block, latches, width)?;
        let rounds = self.rounds(block)?;
        let added = self.node(Node::Binary(Binary::Multiply, step, rounds, width));
        let later = self.sum_node(&[(start, 1), (added, 1)], 0, width);
        // A loop that never goes round has no step at all, and its first round
        // all the same.
        let mut node = self.node(Node::Hull(start, later, width));
        // What the loop's own exit says of the round before.
        for exit in self.exits(block) {
            if exit.phi != atom {
                continue;
            }
            let forms = &mut self.expand.forms;
            let compared = forms.form(exit.compared).clone();
            let mut shift = compared.clone();
            shift.terms.retain(|(other, _)| *other != atom);
            if compared.width != width {
                continue;
            }
            // From what was compared to the next round's value.
            let mut next: Option<NodeId> = None;
            for &latch in latches {
                let reaching = self.expand.at_end(register, latch);
                let form = self.expand.value(reaching);
                let forms = &mut self.expand.forms;
                let distance = forms.form(form).plus(&compared, -1);
                let distance = if distance.factor(atom) == 0 {
                    let id = forms.keep(distance);
                    let context = self.edge(latch, block);
                    self.value(id, context)
                } else {
                    let shift = forms.keep(shift.clone());
                    let shift = self.value(shift, exit.context);
                    self.sum_node(&[(step, 1), (shift, -1)], 0, width)
                };
                next = Some(match next {
                    Some(other) => self.node(Node::Hull(other, distance, width)),
                    None => distance,
                });
            }
            let Some(next) = next else { continue };
            let shift = self.expand.forms.keep(shift);
            let shift = self.value(shift, exit.context);
            let limit = self.value(exit.limit, exit.context);
            let staying = self.node(Node::Staying(Stays {
                relation: exit.relation,
                start,
                shift,
                step,
                limit,
                width,
            }));
            let later = self.sum_node(&[(staying, 1), (next, 1)], 0, width);
            let all = self.node(Node::Hull(start, later, width));
            node = self.node(Node::Both(node, all, width));
        }
        Some(node)
    }

    /// What one round adds to a phi.
    fn step(
        &mut self,
        atom: AtomId,
        register: Register,
        block: BlockId,
        latches: &[BlockId],
        width: Width,
    ) -> Option<NodeId> {
        let mut step: Option<NodeId> = None;
        for &latch in latches {
            let reaching = self.expand.at_end(register, latch);
            let form = self.expand.value(reaching);
            let context = self.edge(latch, block);
            let own = self.distance(atom, form, context, width, 0)?;
            step = Some(match step {
                Some(other) => self.node(Node::Hull(other, own, width)),
                None => own,
            });
        }
        step
    }

    /// How far a value is from the phi that it was computed from.
    fn distance(
        &mut self,
        phi: AtomId,
        form: FormId,
        context: Context,
        width: Width,
        depth: u32,
    ) -> Option<NodeId> {
        let mut rest = self.expand.forms.form(form).clone();
        if rest.width != width || depth > DEEPEST {
            return None;
        }
        if rest.factor(phi) == 1 {
            rest.terms.retain(|(other, _)| *other != phi);
            let rest = self.expand.forms.keep(rest);
            return Some(self.value(rest, context));
        }
        // A join, or a selection, of values that were.
        let [(atom, 1)] = rest.terms[..] else {
            return None;
        };
        let constant = rest.constant;
        let (a, b) = match self.expand.forms.atom(atom).0 {
            Atom::Select(_, a, b) => {
                let a = self.distance(phi, a, context, width, depth + 1)?;
                let b = self.distance(phi, b, context, width, depth + 1)?;
                (a, b)
            }
            Atom::Phi(Reaching::Phi(register, block)) => {
                let (entries, latches) = self.edges(block);
                if !latches.is_empty() {
                    return None;
                }
                let mut hull: Option<NodeId> = None;
                for from in entries {
                    let reaching = self.expand.at_end(register, from);
                    let form = self.expand.value(reaching);
                    let edge = self.edge(from, block);
                    let own = self.distance(phi, form, edge, width, depth + 1)?;
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

    /// Whether every round shifts a phi to the right, or divides it.
    fn shrinks(&mut self, atom: AtomId, register: Register, latches: &[BlockId]) -> Option<View> {
        let mut view = None;
        for &latch in latches {
            let reaching = self.expand.at_end(register, latch);
            let form = self.expand.value(reaching);
            let form = self.expand.forms.form(form);
            let ([(next, 1)], 0) = (&form.terms[..], form.constant) else {
                return None;
            };
            let (own, from) = match self.expand.forms.atom(*next).0 {
                Atom::ShiftRight(view, from, _) => (view, from),
                Atom::Divide(view, from, by)
                    if self.expand.forms.form(by).as_constant() >= Some(1) =>
                {
                    (view, from)
                }
                _ => return None,
            };
            let from = self.expand.forms.form(from);
            let is_phi = matches!(from.terms[..], [(other, 1)] if other == atom);
            if !is_phi || from.constant != 0 || view.is_some_and(|view| view != own) {
                return None;
            }
            view = Some(own);
        }
        view
    }

    /// From zero to how often a loop goes round, the last time through its
    /// head not counted.
    fn rounds(&mut self, block: BlockId) -> Option<NodeId> {
        if let Some(known) = self.rounds.get(&block) {
            return *known;
        }
        self.rounds.insert(block, None);
        let mut rounds: Option<NodeId> = None;
        for exit in self.exits(block) {
            let Atom::Phi(Reaching::Phi(register, _)) = self.expand.forms.atom(exit.phi).0 else {
                continue;
            };
            let mut shift = self.expand.forms.form(exit.compared).clone();
            shift.terms.retain(|(other, _)| *other != exit.phi);
            let width = shift.width;
            if self.expand.forms.atom(exit.phi).1 != width {
                continue;
            }
            let (entries, latches) = self.edges(block);
            let start = self.joined(register, block, &entries, width);
            let Some(step) = self.step(exit.phi, register, block, &latches, width) else {
                continue;
            };
            let shift = self.expand.forms.keep(shift);
            let shift = self.value(shift, exit.context);
            let limit = self.value(exit.limit, exit.context);
            let own = self.node(Node::Rounds(Stays {
                relation: exit.relation,
                start,
                shift,
                step,
                limit,
                width,
            }));
            rounds = Some(match rounds {
                Some(other) => self.node(Node::Binary(
                    Binary::Minimum(View::Unsigned),
                    other,
                    own,
                    COUNT,
                )),
                None => own,
            });
        }
        self.rounds.insert(block, rounds);
        rounds
    }

    /// The comparisons of phis of a loop's head that hold in every round
    /// after which there is another.
    fn exits(&mut self, head: BlockId) -> Vec<Exit> {
        let analysis = self.analysis();
        let Some(natural) = self
            .loops
            .loops
            .iter()
            .find(|natural| natural.header == head)
            .cloned()
        else {
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
            let stays: Vec<BlockId> = successors.iter().filter(inside).copied().collect();
            // `@p exit` leaves by an edge that the graph does not have.
            let leaves = stays.len() < successors.len() || successors.len() == 1;
            let &[to] = stays.as_slice() else { continue };
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
        match (self.expand.forms.condition(condition), holds) {
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
                    let form = self.expand.forms.form(a);
                    let phis: Vec<AtomId> = form
                        .terms
                        .iter()
                        .filter(|(atom, factor)| *factor == 1 && self.is_phi_of(*atom, head))
                        .map(|(atom, _)| *atom)
                        .collect();
                    let &[phi] = phis.as_slice() else { continue };
                    // All else must be the same in every round: see `Stays`.
                    let rest_is_fixed = form
                        .terms
                        .iter()
                        .all(|(atom, _)| *atom == phi || self.is_fixed(*atom, natural));
                    let limit_is_fixed = self
                        .expand
                        .forms
                        .support(b)
                        .iter()
                        .all(|atom| self.is_fixed(*atom, natural));
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

    fn is_phi_of(&self, atom: AtomId, head: BlockId) -> bool {
        matches!(self.expand.forms.atom(atom).0, Atom::Phi(Reaching::Phi(_, block)) if block == head)
    }

    /// Whether an atom is the same in every round of a loop.
    fn is_fixed(&self, atom: AtomId, natural: &Loop) -> bool {
        let inside = |block: BlockId| natural.blocks.binary_search(&block).is_ok();
        let analysis = self.analysis();
        self.expand.forms.atom_support(atom).iter().all(|leaf| {
            match self.expand.forms.atom(*leaf).0 {
                Atom::Parameter { .. } | Atom::Special(_) | Atom::Symbol(_) | Atom::Generic(_) => {
                    true
                }
                Atom::Between(place, ..) | Atom::Opaque(place) | Atom::Phi(place) => match place {
                    Reaching::Phi(_, block) => !inside(block),
                    Reaching::Write(register, index) => {
                        let write = self.expand.registers.write(register, index);
                        !inside(analysis.cfg.block_of[write.instruction as usize])
                    }
                    Reaching::Undefined(_) => true,
                },
                _ => false,
            }
        })
    }
}
