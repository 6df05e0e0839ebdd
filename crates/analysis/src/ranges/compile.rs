//! From sums to a [`Program`]: the range of a value at a place, given what
//! the branches on the way there say.
//!
//! A *context* is a chain of facts, each from a branch that dominates the
//! place (an edge is taken only where its condition holds). A fact about a sum
//! holds for the instances of its atoms that are current at the branch, and
//! since the branch dominates the place, these are the ones that any value
//! at the place is made of.

use super::expand::Expand;
use super::form::{Atom, AtomId, Condition, ConditionId, Form, FormId, Special, Support, share};
use super::interval::{Relation, Width};
use super::program::{Binary, Check, Input, Node, NodeId, Program};
use super::{Alignment, Query};
use crate::cfg::BlockId;
use crate::function::Analysis;
use crate::loops::Loops;
use crate::registers::Reaching;
use ptx::Mnemonic;
use rustc_hash::FxHashMap;

/// The last fact of a chain; `None`: nothing is known.
pub(crate) type Context = Option<u32>;

/// Something that holds in a context.
#[derive(Clone, Debug)]
struct Fact {
    before: Context,
    relation: Relation,
    /// What it is about, without its constant, which is in `constant`.
    about: Form,
    constant: i64,
    /// What it is compared with.
    limit: FormId,
    support: Support,
    /// It compares numbers that are the same for all threads: it may tell
    /// that the place is not reached, but nothing of a value.
    uniform: bool,
    node: Option<NodeId>,
    reached: Option<NodeId>,
}

/// Nodes and sums after which a kernel is left to its checks.
const MOST_NODES: usize = 6000;
const MOST_FORMS: usize = 200_000;
/// Conditions inside conditions that are followed.
const DEEPEST: u32 = 16;
/// Steps of the recursion from value to value.
const DEEPEST_VALUE: u32 = 200;

/// Why no program can prove a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprovable {
    /// The address depends on what memory holds, or on arithmetic that is
    /// not followed.
    Address,
    /// There is too much of it.
    Size,
}

pub(crate) struct Compile<'x, 'm, 'a> {
    pub(crate) expand: Expand<'x, 'm, 'a>,
    pub(crate) loops: Loops,
    pub(crate) program: Program,
    facts: Vec<Fact>,
    fact_ids: FxHashMap<(Context, Relation, FormId, FormId), u32>,
    blocks: FxHashMap<BlockId, Context>,
    node_ids: FxHashMap<Node, NodeId>,
    /// Whether a node can be anything, whatever the launch.
    open: Vec<bool>,
    forms: FxHashMap<(FormId, Context), NodeId>,
    atoms: FxHashMap<(AtomId, Context), NodeId>,
    /// `None` while it is being worked out.
    pub(crate) phis: FxHashMap<AtomId, Option<NodeId>>,
    pub(crate) rounds: FxHashMap<BlockId, Option<NodeId>>,
    depth: u32,
}

impl<'x, 'm, 'a> Compile<'x, 'm, 'a> {
    pub(crate) fn of(analysis: &'x Analysis<'m, 'a>) -> Option<Self> {
        Some(Compile {
            expand: Expand::of(analysis)?,
            loops: Loops::of(&analysis.cfg, &analysis.dominators),
            program: Program::default(),
            facts: Vec::new(),
            fact_ids: FxHashMap::default(),
            blocks: FxHashMap::default(),
            node_ids: FxHashMap::default(),
            open: Vec::new(),
            forms: FxHashMap::default(),
            atoms: FxHashMap::default(),
            phis: FxHashMap::default(),
            rounds: FxHashMap::default(),
            depth: 0,
        })
    }

    pub(crate) fn analysis(&self) -> &'x Analysis<'m, 'a> {
        self.expand.analysis
    }

    /// Adds a check.
    pub(crate) fn check(&mut self, query: &Query) -> Result<(), Unprovable> {
        let at = query.instruction;
        let address = self
            .expand
            .address(at, query.operand)
            .ok_or(Unprovable::Address)?;
        let form = match query.symbol {
            None => address,
            Some(symbol) => self
                .relative(address, self.expand.address_atom(symbol, query.generic))
                .ok_or(Unprovable::Address)?,
        };
        let analysis = self.analysis();
        let mut context = self.context(analysis.cfg.block_of[at as usize]);
        if let Some(guard) = analysis.code.instructions[at as usize].instruction.guard {
            let condition = self.expand.guard(at, guard.register, guard.negated);
            context = self.assume(context, condition, true, 0);
        }
        let address = self.value(form, context);
        if self.is_open(address) {
            return Err(Unprovable::Address);
        }
        let aligned = self.aligned(query, form, (address, context))?;
        let reached = self.reached(context);
        if self.program.nodes.len() > MOST_NODES || self.expand.forms.size() > MOST_FORMS {
            return Err(Unprovable::Size);
        }
        self.program.checks.push(Check {
            address,
            reached,
            low: query.low,
            bytes: query.bytes,
            bounds: query.bounds,
            aligned,
        });
        Ok(())
    }

    /// What must have so many low bits that are zero, so that an access is
    /// aligned.
    fn aligned(
        &mut self,
        query: &Query,
        form: FormId,
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
                let mut moved = self.expand.forms.form(form).clone();
                moved = moved.plus(&Form::constant(at.into(), moved.width), 1);
                let moved = self.expand.forms.keep(moved);
                Ok((self.value(moved, context), zeros(bytes)))
            }
            Alignment::Parameter {
                offset,
                residue,
                bytes,
            } => {
                let parameter = Atom::Parameter { offset, bytes: 8 };
                let pointer = self.expand.forms.atom_form(parameter, 64);
                let moved = self.expand.forms.form(pointer).clone();
                let moved = moved.plus(&Form::constant(residue.into(), 64), 1);
                let moved = self.expand.forms.keep(moved);
                Ok((self.value(moved, None), zeros(bytes)))
            }
        }
    }

    /// An address less that of the variable it was derived from, 64 bits.
    fn relative(&mut self, address: FormId, variable: Atom) -> Option<FormId> {
        let forms = &mut self.expand.forms;
        let form = forms.form(address).clone();
        let base = form
            .terms
            .iter()
            .map(|(atom, _)| *atom)
            .find(|&atom| forms.atom(atom).0 == variable)?;
        if form.factor(base) != 1 {
            return None;
        }
        let mut rest = form;
        rest.terms.retain(|(atom, _)| *atom != base);
        if rest.width == 64 {
            return Some(forms.keep(rest));
        }
        // A 32-bit window: an offset beyond its size is out of bounds anyway,
        // read as a signed number or not.
        let (width, rest) = (rest.width, forms.keep(rest));
        Some(forms.atom_form(Atom::Extend(super::interval::View::Signed, width, rest), 64))
    }

    pub(crate) fn finish(self) -> Program {
        self.program.without_unused()
    }

    // ---- contexts ---------------------------------------------------------

    /// What is known in a block.
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
            // The one edge that leads here, other than from blocks that this
            // one dominates: what held on it still does, as nothing that it
            // speaks of is computed anew on the way round.
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

    /// What is known on an edge.
    pub(crate) fn edge(&mut self, from: BlockId, to: BlockId) -> Context {
        let context = self.context(from);
        self.along(context, from, to)
    }

    fn along(&mut self, context: Context, from: BlockId, to: BlockId) -> Context {
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
        let condition = self.expand.guard(last, guard.register, guard.negated);
        Some((condition, taken))
    }

    /// The context in which a condition holds, or does not.
    fn assume(
        &mut self,
        context: Context,
        condition: ConditionId,
        holds: bool,
        depth: u32,
    ) -> Context {
        if depth > DEEPEST {
            return context;
        }
        match (self.expand.forms.condition(condition), holds) {
            (Condition::Unknown, _) => context,
            (Condition::Not(inner), _) => self.assume(context, inner, !holds, depth + 1),
            (Condition::And(a, b), true) | (Condition::Or(a, b), false) => {
                let context = self.assume(context, a, holds, depth + 1);
                self.assume(context, b, holds, depth + 1)
            }
            (Condition::And(..), false) | (Condition::Or(..), true) => context,
            (Condition::Compare(relation, a, b), _) => {
                let relation = if holds { relation } else { relation.negated() };
                // Of what is the same for all threads there is nothing to
                // learn but whether the place is reached.
                match (self.is_uniform(a), self.is_uniform(b)) {
                    (_, true) => self.fact(context, relation, a, b),
                    (true, false) => self.fact(context, relation.mirrored(), b, a),
                    (false, false) => {
                        let context = self.fact(context, relation, a, b);
                        self.fact(context, relation.mirrored(), b, a)
                    }
                }
            }
        }
    }

    /// Whether a value is one number in each launch.
    fn is_uniform(&self, form: FormId) -> bool {
        let forms = &self.expand.forms;
        forms.support(form).iter().all(|leaf| {
            matches!(
                forms.atom(*leaf).0,
                Atom::Parameter { .. } | Atom::Special(Special::Threads(_) | Special::Blocks(_))
            )
        })
    }

    fn fact(&mut self, before: Context, relation: Relation, a: FormId, limit: FormId) -> Context {
        let forms = &self.expand.forms;
        // What nothing was written to need not be the same at its next use.
        let is_undefined =
            |leaf: &AtomId| matches!(forms.atom(*leaf).0, Atom::Opaque(Reaching::Undefined(_)));
        if forms.support(a).iter().any(is_undefined) {
            return before;
        }
        let form = forms.form(a);
        let key = (before, relation, a, limit);
        if let Some(fact) = self.fact_ids.get(&key) {
            return Some(*fact);
        }
        let mut about = form.clone();
        let constant = std::mem::take(&mut about.constant);
        let fact = Fact {
            before,
            relation,
            support: forms.support(a).clone(),
            uniform: self.is_uniform(a) && self.is_uniform(limit),
            about,
            constant,
            limit,
            node: None,
            reached: None,
        };
        let id = self.facts.len() as u32;
        self.facts.push(fact);
        self.fact_ids.insert(key, id);
        Some(id)
    }

    /// The last fact of a chain that has a bearing on a value.
    fn relevant(&self, support: &Support, mut context: Context) -> Context {
        while let Some(id) = context {
            let fact = &self.facts[id as usize];
            if !fact.uniform && share(&fact.support, support) {
                return context;
            }
            context = fact.before;
        }
        None
    }

    /// What the sum that a fact is about can be, without its constant.
    fn fact_node(&mut self, id: u32) -> NodeId {
        let fact = &self.facts[id as usize];
        if let Some(node) = fact.node {
            return node;
        }
        let (before, relation, limit, constant) =
            (fact.before, fact.relation, fact.limit, fact.constant);
        let about = fact.about.clone();
        let width = about.width;
        let about = self.expand.forms.keep(about);
        let value = self.value(about, before);
        let shifted = self.sum_node(&[(value, 1)], constant, width);
        let limit = self.value(limit, before);
        let refined = self.node(Node::Refine(relation, shifted, limit, width));
        let node = self.sum_node(&[(refined, 1)], constant.wrapping_neg(), width);
        self.facts[id as usize].node = Some(node);
        node
    }

    /// A node that is empty if a context cannot come about.
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

    // ---- nodes ------------------------------------------------------------

    pub(crate) fn is_open(&self, node: NodeId) -> bool {
        self.open[node as usize]
    }

    pub(crate) fn node(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.node_ids.get(&node) {
            return *id;
        }
        let is = |id: NodeId| self.open[id as usize];
        let open = match node {
            Node::Full(width) => width >= 32,
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
            Node::Where(a, _) => is(a),
            Node::Truncate(a, width) => width >= 32 && is(a),
            Node::Hull(a, b, _) => is(a) || is(b),
            Node::Both(a, b, _) => is(a) && is(b),
            Node::Rounds(_) | Node::Staying(_) => false,
        };
        let id = self.program.nodes.len() as NodeId;
        self.program.nodes.push(node);
        self.open.push(open);
        self.node_ids.insert(node, id);
        id
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
    pub(crate) fn value(&mut self, form: FormId, context: Context) -> NodeId {
        let context = self.relevant(self.expand.forms.support(form), context);
        if let Some(node) = self.forms.get(&(form, context)) {
            return *node;
        }
        let width = self.expand.forms.form(form).width;
        if self.depth > DEEPEST_VALUE || self.program.nodes.len() > MOST_NODES {
            return self.node(Node::Full(width));
        }
        self.depth += 1;
        let node = self.value_of(form, context);
        self.depth -= 1;
        self.forms.insert((form, context), node);
        node
    }

    fn value_of(&mut self, form: FormId, context: Context) -> NodeId {
        let mut rest = self.expand.forms.form(form).clone();
        let width = rest.width;
        let mut terms = Vec::new();
        // What facts say of parts of the sum, the latest first.
        let mut at = context;
        while let Some(id) = at {
            let fact = &self.facts[id as usize];
            at = fact.before;
            if fact.uniform {
                continue;
            }
            if let Some(times) = contained(&fact.about, &rest) {
                rest = rest.plus(&fact.about, times.wrapping_neg());
                terms.push((self.fact_node(id), times));
            }
        }
        let mut is_narrowed = false;
        for &(atom, factor) in &rest.terms {
            terms.push((self.atom(atom, context), factor));
            is_narrowed |= self.expand.forms.atom(atom).1 != width;
        }
        if let ([(wide, 1)], 0, true) = (&terms[..], rest.constant, is_narrowed) {
            return self.node(Node::Truncate(*wide, width));
        }
        self.sum_node(&terms, rest.constant, width)
    }

    fn atom(&mut self, atom: AtomId, context: Context) -> NodeId {
        let context = self.relevant(self.expand.forms.atom_support(atom), context);
        if let Some(node) = self.atoms.get(&(atom, context)) {
            return *node;
        }
        let (kind, width) = self.expand.forms.atom(atom);
        let node = match kind {
            Atom::Parameter { offset, bytes } => {
                let input = Input { offset, bytes };
                let inputs = &mut self.program.inputs;
                let at = inputs.iter().position(|known| *known == input);
                let at = at.unwrap_or_else(|| {
                    inputs.push(input);
                    inputs.len() - 1
                });
                self.node(Node::Parameter(at as u32, width))
            }
            Atom::Special(special) => self.node(Node::Special(special)),
            Atom::Symbol(_) | Atom::Generic(_) | Atom::Opaque(_) => self.node(Node::Full(width)),
            Atom::Between(_, low, high) => self.node(Node::Between(low, high)),
            Atom::Phi(reaching) => match reaching {
                Reaching::Phi(register, block) => self.phi(atom, register, block, width),
                _ => self.node(Node::Full(width)),
            },
            Atom::Sum(a) => self.value(a, context),
            Atom::Extend(view, from, a) => {
                let a = self.value(a, context);
                self.node(Node::Extend(view, a, from, width))
            }
            Atom::Absolute(a) => {
                let a = self.value(a, context);
                self.node(Node::Absolute(a, width))
            }
            Atom::Multiply(a, b) => self.binary(Binary::Multiply, a, b, context, width),
            Atom::And(a, b) => self.binary(Binary::And, a, b, context, width),
            Atom::Or(a, b) => self.binary(Binary::Or, a, b, context, width),
            Atom::Xor(a, b) => self.binary(Binary::Xor, a, b, context, width),
            Atom::ShiftLeft(a, b) => self.binary(Binary::ShiftLeft, a, b, context, width),
            Atom::ShiftRight(view, a, b) => {
                self.binary(Binary::ShiftRight(view), a, b, context, width)
            }
            Atom::Divide(view, a, b) => self.binary(Binary::Divide(view), a, b, context, width),
            Atom::Remainder(view, a, b) => {
                self.binary(Binary::Remainder(view), a, b, context, width)
            }
            Atom::Minimum(view, a, b) => self.binary(Binary::Minimum(view), a, b, context, width),
            Atom::Maximum(view, a, b) => self.binary(Binary::Maximum(view), a, b, context, width),
            Atom::Select(condition, a, b) => {
                let where_true = self.assume(context, condition, true, 0);
                let where_false = self.assume(context, condition, false, 0);
                let a = self.value_where(a, where_true);
                let b = self.value_where(b, where_false);
                self.node(Node::Hull(a, b, width))
            }
        };
        self.atoms.insert((atom, context), node);
        node
    }

    /// The range of a value in a context, and nothing if the context cannot
    /// come about.
    pub(crate) fn value_where(&mut self, form: FormId, context: Context) -> NodeId {
        let value = self.value(form, context);
        let reached = self.reached(context);
        if self.program.nodes[reached as usize] == Node::Full(8) {
            return value;
        }
        self.node(Node::Where(value, reached))
    }

    fn binary(
        &mut self,
        binary: Binary,
        a: FormId,
        b: FormId,
        context: Context,
        width: Width,
    ) -> NodeId {
        let a = self.value(a, context);
        let b = self.value(b, context);
        self.node(Node::Binary(binary, a, b, width))
    }
}

/// How many times one sum is contained in another, whole.
fn contained(part: &Form, whole: &Form) -> Option<i64> {
    if part.width != whole.width || part.terms.is_empty() {
        return None;
    }
    let (atom, factor) = part.terms[0];
    let times = match whole.factor(atom) {
        0 => return None,
        other => other.checked_div(factor).filter(|&times| times != 0)?,
    };
    part.terms
        .iter()
        .all(|&(atom, factor)| factor.checked_mul(times) == Some(whole.factor(atom)))
        .then_some(times)
}
