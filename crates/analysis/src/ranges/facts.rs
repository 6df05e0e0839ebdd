//! What is known at an instruction: contexts.
//!
//! A *context* is a chain of facts, each from a branch that dominates the
//! instruction (an edge is taken only where its condition holds). A fact about
//! an expression holds for the instances of its symbols that are current at
//! the branch. Since the branch dominates the instruction, every value at the
//! instruction is made of the same instances.

use super::affine::{
    Affine, AffineId, Condition, ConditionId, Support, Symbolic, SymbolicId, share,
};
use super::compile::Compile;
use super::program::{Node, NodeId};
use super::relation::Relation;
use crate::cfg::BlockId;
use crate::operation::{Binary, View};
use crate::ssa::Definition;
use ptx::Mnemonic;
use smallvec::SmallVec;

/// The last fact of a chain; `None`: nothing is known.
pub(crate) type Context = Option<u32>;

/// A comparison that holds in a context.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) before: Context,
    pub(super) relation: Relation,
    /// The left side, without its constant, which is in `constant`.
    pub(super) about: Affine,
    pub(super) constant: i64,
    /// Of a difference, the terms that are the same for all threads: they are not part of
    /// the left side, so that the fact limits values without them.
    moved: Option<AffineId>,
    /// The fact is about the difference of this value and the limit, if the
    /// relation holds between the two.
    pub(super) distance_of: Option<AffineId>,
    /// The right side.
    pub(super) limit: AffineId,
    pub(super) support: Support,
    /// It compares numbers that are the same for all threads. It may show that
    /// an instruction is not reached, but limits no value.
    pub(super) uniform: bool,
    pub(super) node: Option<NodeId>,
    pub(super) reached: Option<NodeId>,
}

/// Conditions inside conditions that are followed.
const DEEPEST: u32 = 16;
/// Ends that the range of what a loop carries may have.
const MOST_ENDS: usize = 4;

impl Compile<'_, '_, '_> {
    /// The context of a block.
    pub(crate) fn context(&mut self, block: BlockId) -> Context {
        let analysis = self.analysis();
        let mut waiting = Vec::new();
        let mut at = block;
        let mut context = loop {
            if let Some(known) = self.blocks.get(&at) {
                break *known;
            }
            waiting.push(at);
            match analysis.dominators.immediate(at) {
                Some(above) => at = above,
                None => break None,
            }
        };
        while let Some(block) = waiting.pop() {
            // Only one edge enters the block, apart from edges from blocks
            // that this one dominates. Its facts still hold after an
            // iteration: no symbol in them is defined inside the loop.
            let mut entries = analysis.cfg.blocks[block.0 as usize]
                .predecessors
                .iter()
                .copied()
                .filter(|&from| {
                    analysis.cfg.is_reachable(from) && !analysis.dominators.dominates(block, from)
                });
            if let (Some(from), None) = (entries.next(), entries.next()) {
                context = self.along(context, from, block);
            }
            self.blocks.insert(block, context);
        }
        context
    }

    /// The context of an edge.
    pub(crate) fn edge(&mut self, from: BlockId, to: BlockId) -> Context {
        let context = self.context(from);
        self.along(context, from, to)
    }

    pub(super) fn along(&mut self, context: Context, from: BlockId, to: BlockId) -> Context {
        match self.branch(from, to) {
            Some((condition, holds)) => self.assume(context, condition, holds, 0),
            None => context,
        }
    }

    /// The condition under which control goes from one block to another, and
    /// whether it must hold or not.
    pub(crate) fn branch(&mut self, from: BlockId, to: BlockId) -> Option<(ConditionId, bool)> {
        let analysis = self.analysis();
        let block = &analysis.cfg.blocks[from.0 as usize];
        let last = block
            .end
            .checked_sub(1)
            .filter(|&last| last >= block.first)?;
        let instruction = analysis.code.instructions[last as usize].instruction;
        let guard = instruction.guard?;
        let next = BlockId(from.0 + 1);
        let taken = match (instruction.opcode.mnemonic(), block.successors.len()) {
            (Mnemonic::Bra, 2) => to != next,
            (Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap, 1) => false,
            _ => return None,
        };
        let condition = self.expand.guard(last, guard.negated);
        Some((condition, taken))
    }

    /// The context in which a condition holds, or does not.
    pub(super) fn assume(
        &mut self,
        context: Context,
        condition: ConditionId,
        holds: bool,
        depth: u32,
    ) -> Context {
        if depth > DEEPEST {
            return context;
        }
        match (self.expand.expressions.condition(condition), holds) {
            (Condition::Unknown, _) => context,
            (Condition::Not(inner), _) => self.assume(context, inner, !holds, depth + 1),
            (Condition::And(a, b), true) | (Condition::Or(a, b), false) => {
                let context = self.assume(context, a, holds, depth + 1);
                self.assume(context, b, holds, depth + 1)
            }
            (Condition::And(..), false) | (Condition::Or(..), true) => context,
            (Condition::Compare(relation, a, b), _) => {
                let relation = if holds { relation } else { relation.negated() };
                self.compared(context, relation, (a, b), depth)
            }
        }
    }

    /// The context in which two values are in a relation.
    pub(super) fn compared(
        &mut self,
        context: Context,
        relation: Relation,
        (a, b): (AffineId, AffineId),
        depth: u32,
    ) -> Context {
        // A comparison of values that are the same for all threads only shows
        // whether the instruction is reached.
        let context = match (
            self.expand.is_shared_number(a),
            self.expand.is_shared_number(b),
        ) {
            (_, true) => self.fact(context, relation, a, b),
            (true, false) => self.fact(context, relation.mirrored(), b, a),
            (false, false) => {
                let context = self.fact(context, relation, a, b);
                let context = self.fact(context, relation.mirrored(), b, a);
                self.distance_fact(context, relation, a, b)
            }
        };
        let context = self.implied(context, relation, (a, b), depth);
        self.implied(context, relation.mirrored(), (b, a), depth)
    }

    /// What a comparison of one of two values implies for both: compilers test
    /// that neither is negative by `x | y`, and that neither is too large by the
    /// larger one.
    pub(super) fn implied(
        &mut self,
        context: Context,
        relation: Relation,
        (a, limit): (AffineId, AffineId),
        depth: u32,
    ) -> Context {
        let expressions = &self.expand.expressions;
        let ([(symbolic, 1)], 0) = (
            expressions.affine(a).terms.as_slice(),
            expressions.affine(a).constant,
        ) else {
            return context;
        };
        let (Symbolic::Binary(binary, x, y), width) = expressions.symbolic(*symbolic) else {
            return context;
        };
        let own = (expressions.affine(a).width, expressions.affine(x).width);
        if depth > DEEPEST || own != (width, width) {
            return context;
        }
        let number = expressions.affine(limit).as_constant();
        let (relation, limit) = match (binary, relation) {
            (Binary::Or, Relation::AtLeast(View::Signed)) if number >= Some(0) => {
                let zero = self.expand.expressions.constant(0, width);
                (relation, zero)
            }
            (Binary::Or, Relation::Greater(View::Signed)) if number >= Some(-1) => {
                let zero = self.expand.expressions.constant(0, width);
                (Relation::AtLeast(View::Signed), zero)
            }
            (Binary::Or, Relation::Equal) if number == Some(0) => (relation, limit),
            (Binary::Or, Relation::Less(View::Unsigned) | Relation::AtMost(View::Unsigned)) => {
                (relation, limit)
            }
            (Binary::Maximum(own), Relation::Less(view) | Relation::AtMost(view))
            | (Binary::Minimum(own), Relation::Greater(view) | Relation::AtLeast(view))
                if own == view =>
            {
                (relation, limit)
            }
            _ => return context,
        };
        let context = self.compared(context, relation, (x, limit), depth + 1);
        self.compared(context, relation, (y, limit), depth + 1)
    }

    /// Whether a value depends on a register that nothing was written to: it may
    /// have another value at its next use.
    pub(super) fn is_undefined(&self, affine: AffineId) -> bool {
        let expressions = &self.expand.expressions;
        let is_undefined = |leaf: &SymbolicId| match expressions.symbolic(*leaf).0 {
            Symbolic::Opaque(value) => self.expand.definition_of(value) == Definition::Undefined,
            _ => false,
        };
        expressions.support(affine).iter().any(is_undefined)
    }

    /// The fact about the difference of two values that a comparison implies.
    pub(super) fn distance_fact(
        &mut self,
        before: Context,
        relation: Relation,
        a: AffineId,
        b: AffineId,
    ) -> Context {
        let is_constant = |id| self.expand.expressions.affine(id).terms.is_empty();
        if relation == Relation::Differs || is_constant(a) || is_constant(b) {
            return before;
        }
        if self.is_undefined(a) || self.is_undefined(b) {
            return before;
        }
        let mut about = self.expand.expressions.affine(a).clone();
        about = about.plus(self.expand.expressions.affine(b), -1);
        if about.terms.is_empty() {
            return before;
        }
        let key = (before, relation, a, b);
        if let Some(fact) = self.distance_ids.get(&key) {
            return Some(*fact);
        }
        let constant = std::mem::take(&mut about.constant);
        let moved = self.moved(&mut about);
        let sum = self.expand.expressions.keep(about.clone());
        let fact = Fact {
            before,
            relation,
            support: self.expand.expressions.support(sum).clone(),
            uniform: false,
            about,
            constant,
            moved,
            distance_of: Some(a),
            limit: b,
            node: None,
            reached: None,
        };
        let id = self.facts.len() as u32;
        self.facts.push(fact);
        self.distance_ids.insert(key, id);
        Some(id)
    }

    /// Takes the terms that are the same for all threads off a sum that has others.
    fn moved(&mut self, about: &mut Affine) -> Option<AffineId> {
        let mut shared = Affine::constant(0, about.width);
        let expressions = &self.expand.expressions;
        let terms = about.terms.iter().copied();
        shared.terms.extend(terms.filter(|(symbolic, _)| {
            expressions.are_shared(expressions.symbolic_support(*symbolic))
        }));
        if shared.terms.is_empty() || shared.terms.len() == about.terms.len() {
            return None;
        }
        *about = about.plus(&shared, -1);
        Some(self.expand.expressions.keep(shared))
    }

    pub(super) fn fact(
        &mut self,
        before: Context,
        relation: Relation,
        a: AffineId,
        limit: AffineId,
    ) -> Context {
        if self.is_undefined(a) {
            return before;
        }
        let expressions = &self.expand.expressions;
        let affine = expressions.affine(a);
        let key = (before, relation, a, limit);
        if let Some(fact) = self.fact_ids.get(&key) {
            return Some(*fact);
        }
        let mut about = affine.clone();
        let constant = std::mem::take(&mut about.constant);
        let fact = Fact {
            before,
            relation,
            support: expressions.support(a).clone(),
            uniform: self.expand.is_shared_number(a) && self.expand.is_shared_number(limit),
            about,
            constant,
            moved: None,
            distance_of: None,
            limit,
            node: None,
            reached: None,
        };
        let id = self.facts.len() as u32;
        self.facts.push(fact);
        self.fact_ids.insert(key, id);
        Some(id)
    }

    /// The last fact of a chain that may limit a value.
    pub(super) fn relevant(&self, support: &Support, mut context: Context) -> Context {
        while let Some(id) = context {
            let fact = &self.facts[id as usize];
            if !fact.uniform && (share(&fact.support, support) || self.shares(fact, support)) {
                return context;
            }
            context = fact.before;
        }
        None
    }

    /// Whether a fact is about a phi by which one of a value's is expressed.
    pub(super) fn shares(&self, fact: &Fact, support: &Support) -> bool {
        let siblings = support.iter().filter_map(|leaf| self.siblings.get(leaf));
        let mut siblings = siblings.flatten();
        siblings.any(|sibling| fact.support.contains(&sibling.tested))
    }

    /// The range of a fact's left side, without its constant.
    pub(super) fn fact_node(&mut self, id: u32) -> NodeId {
        let fact = &self.facts[id as usize];
        if let Some(node) = fact.node {
            return node;
        }
        let (before, relation, limit, constant) =
            (fact.before, fact.relation, fact.limit, fact.constant);
        let about = fact.about.clone();
        let width = about.width;
        let (distance_of, moved) = (fact.distance_of, fact.moved);
        let about = self.expand.expressions.keep(about);
        let mut terms: SmallVec<[(NodeId, i64); 2]> = SmallVec::new();
        terms.push((self.value(about, before), 1));
        if let Some(moved) = moved {
            terms.push((self.value(moved, before), 1));
        }
        let shifted = self.sum_node(&terms, constant, width);
        let limit = self.value(limit, before);
        let refined = match distance_of {
            None => self.node(Node::Refine(relation, shifted, limit, width)),
            Some(a) => {
                let a = self.value(a, before);
                let distance = self.node(Node::Distance(relation, a, limit, width));
                self.node(Node::Both(shifted, distance, width))
            }
        };
        terms[0] = (refined, 1);
        if let Some((_, factor)) = terms.get_mut(1) {
            *factor = -1;
        }
        let node = self.sum_node(&terms, constant.wrapping_neg(), width);
        self.facts[id as usize].node = Some(node);
        node
    }

    /// A node that is empty if a context cannot occur.
    pub(crate) fn reached(&mut self, context: Context) -> NodeId {
        let mut waiting = Vec::new();
        let mut at = context;
        let mut node = loop {
            let Some(id) = at else {
                break self.node(Node::Full(8));
            };
            if let Some(node) = self.facts[id as usize].reached {
                break node;
            }
            waiting.push(id);
            at = self.facts[id as usize].before;
        };
        while let Some(id) = waiting.pop() {
            let refined = self.fact_node(id);
            if !self.is_open(refined) {
                node = self.node(Node::All(node, refined));
            }
            self.facts[id as usize].reached = Some(node);
        }
        node
    }

    /// Adds the numbers that facts of a context compare a value with.
    pub(crate) fn ends(
        &mut self,
        affine: AffineId,
        mut context: Context,
        ends: &mut SmallVec<[NodeId; 2]>,
    ) {
        let value = self.expand.expressions.affine(affine).clone();
        while let Some(id) = context
            && ends.len() < MOST_ENDS
        {
            let fact = &self.facts[id as usize];
            context = fact.before;
            let (limit, constant) = (fact.limit, fact.constant);
            let is_limited = !fact.uniform
                && fact.distance_of.is_none()
                && !matches!(fact.relation, Relation::Differs)
                && contained(&fact.about, &value) == Some(1)
                && fact.about.terms.len() == value.terms.len();
            if is_limited {
                let before = fact.before;
                let limit = self.value(limit, before);
                let by = value.constant.wrapping_sub(constant);
                ends.push(self.sum_node(&[(limit, 1)], by, value.width));
            }
        }
    }
}

/// How many times one sum is contained in another, whole.
pub(super) fn contained(part: &Affine, whole: &Affine) -> Option<i64> {
    if part.width != whole.width || part.terms.is_empty() {
        return None;
    }
    let (symbolic, factor) = part.terms[0];
    let times = match whole.factor(symbolic) {
        0 => return None,
        other => other.checked_div(factor).filter(|&times| times != 0)?,
    };
    part.terms
        .iter()
        .all(|&(symbolic, factor)| factor.checked_mul(times) == Some(whole.factor(symbolic)))
        .then_some(times)
}
