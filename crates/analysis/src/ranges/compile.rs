//! From affine expressions to a [`Program`]: the range of a value at an
//! instruction, limited by the conditions of the branches that lead there.

use super::affine::{Affine, AffineId, Symbolic, SymbolicId};
use super::expand::Expand;
use super::facts::{Context, Fact, contained};
use super::program::{Bounds, Check, Input, Node, NodeId, Program};
use super::relation::Relation;
use super::siblings::Siblings;
use super::trips::Range;
use super::{Alignment, Query};
use crate::cfg::BlockId;
use crate::function::Analysis;
use crate::loops::Loops;
use crate::operation::{Binary, View, Width};
use rustc_hash::FxHashMap;

/// A kernel with more nodes and expressions is not proved; it keeps its checks.
const MOST_NODES: usize = 6000;
const MOST_FORMS: usize = 200_000;
/// Depth of the recursion from value to value.
const DEEPEST_VALUE: u32 = 200;

/// The reason why no launch of a kernel can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprovable {
    /// The address depends on a value loaded from memory, or on arithmetic
    /// that the analysis does not follow.
    Address,
    /// The buffer is known on the device only.
    Buffer,
    /// The function is too large.
    Size,
}

pub(crate) struct Compile<'x, 'm, 'a> {
    pub(crate) expand: Expand<'x, 'm, 'a>,
    pub(crate) loops: Loops,
    pub(crate) program: Program,
    pub(super) facts: Vec<Fact>,
    pub(super) fact_ids: FxHashMap<(Context, Relation, AffineId, AffineId), u32>,
    pub(super) distance_ids: FxHashMap<(Context, Relation, AffineId, AffineId), u32>,
    pub(super) blocks: FxHashMap<BlockId, Context>,
    pub(super) node_ids: FxHashMap<Node, NodeId>,
    /// Whether a node has the full range at every launch.
    open: Vec<bool>,
    expressions: FxHashMap<(AffineId, Context), NodeId>,
    symbolics: FxHashMap<(SymbolicId, Context), NodeId>,
    pub(crate) phis: FxHashMap<SymbolicId, Range>,
    /// The recurrences of phis.
    pub(crate) carried: FxHashMap<SymbolicId, u32>,
    /// Phis that are expressed by others.
    pub(crate) siblings: FxHashMap<SymbolicId, Siblings>,
    /// The phis of loops that branches inside of them compare, by head.
    pub(crate) compared_phis: FxHashMap<BlockId, Vec<SymbolicId>>,
    pub(crate) trips: FxHashMap<BlockId, Option<NodeId>>,
    depth: u32,
    /// The parts of a value that is taken apart into a row and a column are being
    /// computed, which the value itself may be part of.
    pub(super) is_splitting: bool,
    /// Number of the query whose checks are being added.
    pub(crate) queries: u32,
}

impl<'x, 'm, 'a> Compile<'x, 'm, 'a> {
    pub(crate) fn of(analysis: &'x Analysis<'m, 'a>) -> Option<Self> {
        Some(Compile {
            expand: Expand::of(analysis)?,
            loops: Loops::of(&analysis.cfg, &analysis.dominators),
            program: Program::default(),
            facts: Vec::new(),
            fact_ids: FxHashMap::default(),
            distance_ids: FxHashMap::default(),
            blocks: FxHashMap::default(),
            node_ids: FxHashMap::default(),
            open: Vec::new(),
            expressions: FxHashMap::default(),
            symbolics: FxHashMap::default(),
            phis: FxHashMap::default(),
            carried: FxHashMap::default(),
            siblings: FxHashMap::default(),
            compared_phis: FxHashMap::default(),
            trips: FxHashMap::default(),
            depth: 0,
            is_splitting: false,
            queries: 0,
        })
    }

    pub(crate) fn analysis(&self) -> &'x Analysis<'m, 'a> {
        self.expand.analysis
    }

    /// Adds a check.
    pub(crate) fn check(&mut self, query: &Query) -> Result<(), Unprovable> {
        let at = query.instruction;
        let analysis = self.analysis();
        let mut context = self.context(analysis.cfg.block_of[at as usize]);
        if let Some(guard) = analysis.code.instructions[at as usize].instruction.guard {
            let condition = self.expand.guard(at, guard.negated);
            context = self.assume(context, condition, true, 0);
        }
        if query.bounds == Bounds::Choice {
            let choices = self.choices(at, query.operand, context);
            for choice in choices.ok_or(Unprovable::Buffer)? {
                let aligned = self.aligned_choice(query, choice.address)?;
                let bounds = Bounds::Parameter(choice.parameter);
                self.add_check((query, bounds), (choice.address, context), aligned)?;
            }
            return Ok(());
        }
        let address = self
            .expand
            .address(at, query.operand)
            .ok_or(Unprovable::Address)?;
        let affine = match query.symbol {
            None => address,
            Some(symbol) => self
                .relative(address, self.expand.address_symbolic(symbol, query.generic))
                .ok_or(Unprovable::Address)?,
        };
        let address = self.value(affine, context);
        if self.is_open(address) {
            return Err(Unprovable::Address);
        }
        let aligned = self.aligned(query, affine, (address, context))?;
        self.add_check((query, query.bounds), (address, context), aligned)
    }

    fn add_check(
        &mut self,
        (query, bounds): (&Query, Bounds),
        (address, context): (NodeId, Context),
        aligned: (NodeId, u8),
    ) -> Result<(), Unprovable> {
        if self.is_open(address) {
            return Err(Unprovable::Address);
        }
        let reached = self.reached(context);
        if self.program.nodes.len() > MOST_NODES || self.expand.expressions.size() > MOST_FORMS {
            return Err(Unprovable::Size);
        }
        self.program.checks.push(Check {
            address,
            reached,
            query: self.queries,
            low: query.low,
            bytes: query.bytes,
            bounds,
            aligned,
        });
        Ok(())
    }

    /// [`Compile::aligned`] for an address that comes from one of several
    /// pointers.
    fn aligned_choice(
        &mut self,
        query: &Query,
        address: NodeId,
    ) -> Result<(NodeId, u8), Unprovable> {
        match query.alignment {
            Alignment::Known => Ok((address, 0)),
            Alignment::Address { at, bytes } => {
                let moved = self.sum_node(&[(address, 1)], at, 64);
                Ok((moved, bytes.trailing_zeros() as u8))
            }
            // (The alignment of one of them says nothing of the others.)
            Alignment::Parameter { .. } => Err(Unprovable::Address),
        }
    }

    /// A node, and the number of its low bits that must be zero for an access
    /// to be aligned.
    fn aligned(
        &mut self,
        query: &Query,
        affine: AffineId,
        (address, context): (NodeId, Context),
    ) -> Result<(NodeId, u8), Unprovable> {
        let zeros = |bytes: u64| bytes.trailing_zeros() as u8;
        match query.alignment {
            Alignment::Known => Ok((address, 0)),
            Alignment::Address { at, bytes } => {
                let symbols = &self.analysis().code.symbols;
                let declared = query
                    .symbol
                    .map(|symbol| symbols[symbol.0 as usize].alignment);
                if declared.is_some_and(|declared| u64::from(declared) < bytes) {
                    return Err(Unprovable::Address);
                }
                if at as u64 & (bytes - 1) == 0 {
                    return Ok((address, zeros(bytes)));
                }
                let mut moved = self.expand.expressions.affine(affine).clone();
                moved = moved.plus(&Affine::constant(at.into(), moved.width), 1);
                let moved = self.expand.expressions.keep(moved);
                Ok((self.value(moved, context), zeros(bytes)))
            }
            Alignment::Parameter {
                offset,
                residue,
                bytes,
            } => {
                let parameter = Symbolic::Parameter { offset, bytes: 8 };
                let pointer = self.expand.expressions.symbolic_affine(parameter, 64);
                let moved = self.expand.expressions.affine(pointer).clone();
                let moved = moved.plus(&Affine::constant(residue.into(), 64), 1);
                let moved = self.expand.expressions.keep(moved);
                Ok((self.value(moved, None), zeros(bytes)))
            }
        }
    }

    /// The 64-bit offset of an address from the variable it was derived from.
    fn relative(&mut self, address: AffineId, variable: Symbolic) -> Option<AffineId> {
        let width = self.expand.expressions.affine(address).width;
        let variable = self.expand.expressions.symbolic_id(variable, width);
        let rest = self.within(address, variable)?;
        if width == 64 {
            return Some(rest);
        }
        // A 32-bit window: an offset beyond its size is out of bounds anyway,
        // read as a signed number or not.
        let extended = Symbolic::Extend(View::Signed, width, rest);
        Some(self.expand.expressions.symbolic_affine(extended, 64))
    }

    /// The program; else, the index of the check that no launch can pass.
    pub(crate) fn finish(mut self) -> Result<Program, (Option<usize>, Unprovable)> {
        if !self.program.recurrences.is_empty() {
            self.settle_open();
            let is_open = |check: &Check| self.open[check.address as usize];
            if let Some(index) = self.program.checks.iter().position(is_open) {
                let query = self.program.checks[index].query as usize;
                return Err((Some(query), Unprovable::Address));
            }
        }
        Ok(self.program.without_unused())
    }

    /// Which nodes are open, now that the operands of recurrences are known.
    fn settle_open(&mut self) {
        loop {
            let mut changed = false;
            for recurrence in &self.program.recurrences {
                let is = |id: NodeId| self.open[id as usize];
                let open = is(recurrence.start) || recurrence.next.is_some_and(is);
                changed |=
                    open != std::mem::replace(&mut self.open[recurrence.node as usize], open);
            }
            if !changed {
                return;
            }
            for id in 0..self.program.nodes.len() {
                let node = self.program.nodes[id];
                if !matches!(node, Node::Carried(..)) {
                    self.open[id] = self.opens(node);
                }
            }
        }
    }

    // ---- nodes ------------------------------------------------------------

    pub(crate) fn is_open(&self, node: NodeId) -> bool {
        self.open[node as usize]
    }

    pub(crate) fn node(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.node_ids.get(&node) {
            return *id;
        }
        let open = self.opens(node);
        let id = self.program.nodes.len() as NodeId;
        self.program.nodes.push(node);
        self.open.push(open);
        self.node_ids.insert(node, id);
        id
    }

    /// Whether a node has the full range, as its operands have.
    fn opens(&self, node: Node) -> bool {
        let is = |id: NodeId| self.open[id as usize];
        match node {
            Node::Full(width) => width >= 32,
            Node::Carried(..) => false,
            Node::Between(..) | Node::Special(_) | Node::Parameter(..) | Node::All(..) => false,
            Node::Sum { first, end, .. } => self.program.terms[first as usize..end as usize]
                .iter()
                .any(|(id, _)| is(*id)),
            Node::Extend(_, a, from, _) => from >= 32 && is(a),
            Node::Binary(binary, a, b, _) => match binary {
                Binary::And | Binary::Minimum(_) => is(a) && is(b),
                Binary::Remainder(_) => is(b),
                Binary::ShiftRight(_) => false,
                _ => is(a) || is(b),
            },
            Node::Absolute(a, _) | Node::Shrinks(_, a, _) => is(a),
            // One side may be enough.
            Node::Refine(Relation::Differs, a, ..) => is(a),
            Node::Refine(_, a, limit, _) => is(a) && is(limit),
            Node::Distance(_, a, b, _) => is(a) || is(b),
            Node::Where(a, _) => is(a),
            Node::Truncate(a, width) => width >= 32 && is(a),
            Node::Hull(a, b, _) => is(a) || is(b),
            Node::Both(a, b, _) => is(a) && is(b),
            Node::Trips(_) | Node::Staying(_) | Node::Steady(..) | Node::Otherwise(..) => false,
        }
    }

    pub(crate) fn sum_node(
        &mut self,
        terms: &[(NodeId, i64)],
        constant: i64,
        width: Width,
    ) -> NodeId {
        if let ([(node, 1)], 0) = (terms, constant) {
            return *node;
        }
        let first = self.program.terms.len() as u32;
        self.program.terms.extend_from_slice(terms);
        self.node(Node::Sum {
            first,
            end: first + terms.len() as u32,
            constant,
            width,
        })
    }

    /// The range of a value in a context.
    pub(crate) fn value(&mut self, affine: AffineId, context: Context) -> NodeId {
        let leaves = self.expand.expressions.support(affine).clone();
        self.find_siblings(&leaves);
        let context = self.relevant(self.expand.expressions.support(affine), context);
        if let Some(node) = self.expressions.get(&(affine, context)) {
            return *node;
        }
        let width = self.expand.expressions.affine(affine).width;
        if self.depth > DEEPEST_VALUE || self.program.nodes.len() > MOST_NODES {
            return self.node(Node::Full(width));
        }
        self.depth += 1;
        let mut node = self.value_of(affine, context);
        if let Some(exact) = self.exact(affine, context) {
            node = self.node(Node::Both(node, exact, width));
        }
        if let Some(folded) = self.folded(affine, context) {
            node = self.node(Node::Both(node, folded, width));
        }
        if let Some(split) = self.split(affine, context) {
            node = self.node(Node::Both(node, split, width));
        }
        self.depth -= 1;
        self.expressions.insert((affine, context), node);
        node
    }

    /// The range of a sum by the last fact that is about all of it, if there are
    /// later ones about parts of it, which [`Compile::value_of`] uses.
    fn exact(&mut self, affine: AffineId, context: Context) -> Option<NodeId> {
        let whole = self.expand.expressions.affine(affine).clone();
        if whole.terms.len() < 2 {
            return None;
        }
        let mut at = context;
        let mut is_last = true;
        while let Some(id) = at {
            let fact = &self.facts[id as usize];
            at = fact.before;
            let times = match fact.uniform {
                true => None,
                false => contained(&fact.about, &whole),
            };
            let Some(times) = times else { continue };
            if fact.about.terms.len() < whole.terms.len() {
                is_last = false;
                continue;
            }
            if is_last {
                return None;
            }
            let node = self.fact_node(id);
            return Some(self.sum_node(&[(node, times)], whole.constant, whole.width));
        }
        None
    }

    fn value_of(&mut self, affine: AffineId, context: Context) -> NodeId {
        let mut rest = self.expand.expressions.affine(affine).clone();
        let width = rest.width;
        let mut terms = Vec::new();
        // The limits that facts set to parts of the sum, the latest first.
        let mut at = context;
        while let Some(id) = at {
            let fact = &self.facts[id as usize];
            at = fact.before;
            if fact.uniform {
                continue;
            }
            if let Some(times) = contained(&fact.about, &rest) {
                rest = rest.plus(&fact.about, times.wrapping_neg());
                terms.push((self.limited(id, context), times));
            }
        }
        let mut is_narrowed = false;
        for &(symbolic, factor) in &rest.terms {
            terms.push((self.symbolic(symbolic, context), factor));
            is_narrowed |= self.expand.expressions.symbolic(symbolic).1 != width;
        }
        if let ([(wide, 1)], 0, true) = (&terms[..], rest.constant, is_narrowed) {
            return self.node(Node::Truncate(*wide, width));
        }
        self.sum_node(&terms, rest.constant, width)
    }

    /// The range of a fact's left side in a context that goes on after the fact.
    /// Later facts may limit what a symbol is made of.
    fn limited(&mut self, id: u32, context: Context) -> NodeId {
        let node = self.fact_node(id);
        let fact = &self.facts[id as usize];
        let (before, width) = (fact.before, fact.about.width);
        let &[(symbolic, factor)] = fact.about.terms.as_slice() else {
            return node;
        };
        let (earlier, now) = (
            self.symbolic(symbolic, before),
            self.symbolic(symbolic, context),
        );
        if earlier == now {
            return node;
        }
        let now = self.sum_node(&[(now, factor)], 0, width);
        self.node(Node::Both(node, now, width))
    }

    pub(super) fn symbolic(&mut self, symbolic: SymbolicId, context: Context) -> NodeId {
        let context = self.relevant(self.expand.expressions.symbolic_support(symbolic), context);
        if let Some(node) = self.symbolics.get(&(symbolic, context)) {
            return *node;
        }
        let (kind, width) = self.expand.expressions.symbolic(symbolic);
        let node = match kind {
            Symbolic::Parameter { offset, bytes } => {
                let input = Input { offset, bytes };
                let inputs = &mut self.program.inputs;
                let at = inputs.iter().position(|known| *known == input);
                let at = at.unwrap_or_else(|| {
                    inputs.push(input);
                    inputs.len() - 1
                });
                self.node(Node::Parameter(at as u32, width))
            }
            Symbolic::Special(special) => self.node(Node::Special(special)),
            Symbolic::Symbol(_) | Symbolic::Generic(_) | Symbolic::Opaque(_) => {
                self.node(Node::Full(width))
            }
            Symbolic::Between(_, low, high) => self.node(Node::Between(low, high)),
            Symbolic::Phi(phi) | Symbolic::Within(phi, _) => {
                let node = self.phi(symbolic, phi, width);
                self.by_sibling(symbolic, node, context, width)
            }
            Symbolic::Sum(a) => self.value(a, context),
            Symbolic::Extend(view, from, a) => {
                let a = self.value(a, context);
                self.node(Node::Extend(view, a, from, width))
            }
            Symbolic::Absolute(a) => {
                let a = self.value(a, context);
                self.node(Node::Absolute(a, width))
            }
            Symbolic::Binary(binary, a, b) => {
                let (a, b) = (self.value(a, context), self.value(b, context));
                self.node(Node::Binary(binary, a, b, width))
            }
            Symbolic::Select(condition, a, b) => {
                let where_true = self.assume(context, condition, true, 0);
                let where_false = self.assume(context, condition, false, 0);
                let a = self.value_where(a, where_true);
                let b = self.value_where(b, where_false);
                self.node(Node::Hull(a, b, width))
            }
        };
        self.symbolics.insert((symbolic, context), node);
        node
    }

    /// The range of a value in a context; empty if the context cannot occur.
    pub(crate) fn value_where(&mut self, affine: AffineId, context: Context) -> NodeId {
        let value = self.value(affine, context);
        let reached = self.reached(context);
        if self.program.nodes[reached as usize] == Node::Full(8) {
            return value;
        }
        self.node(Node::Where(value, reached))
    }
}
