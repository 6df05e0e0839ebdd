//! Base pointer analysis: the origin of every value, by iteration over
//! [`Expr`]s to a fixed point.
//!
//! A root is an *instance*: the list node loaded in this iteration of a loop is
//! not the one loaded in the last. In SSA form a chain of definitions without a
//! phi always has one instance. So has a phi that the root's definition
//! strictly dominates. Every other phi makes [`Origin::Several`].

use crate::code::{Code, Referent, ValueId};
use crate::dominators::Dominators;
use crate::fields::{Field, fields};
use crate::lower::{Expr, Lowered, Packed, Term, Unscaled, lower};
use crate::names::{Symbol, SymbolSpace};
use crate::origin::{Certainty, Origin, Root, RootId};
use crate::roles::Role;
use crate::ssa::{Definition, Ssa};
use debuginfo::DebugInfo;
use ptx::table::Space;
use rustc_hash::FxHashMap;

/// Origins of a function's values.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// The roots.
    pub roots: Vec<Root>,
    exprs: Vec<Expr>,
    origins: Vec<Origin>,
    fields: FxHashMap<ValueId, Field>,
}

/// Iterations after which values that still change become unknown. Real code
/// needs three or four.
const ROUNDS: usize = 40;

impl Provenance {
    /// Analyses a function; `debug` has the types of its variables.
    pub fn of(
        code: &Code<'_, '_>,
        dominators: &Dominators,
        ssa: &Ssa,
        debug: &DebugInfo,
    ) -> Provenance {
        let lowered = lower(code, ssa);
        let fields = fields(code, ssa, &lowered.exprs, &lowered.roots, debug);
        let mut provenance = Provenance::solve(code, dominators, ssa, lowered);
        let mut found = FxHashMap::default();
        let mut added = Vec::new();
        for (value, field) in fields {
            let address = provenance.operand(code, ssa, value, field.operand);
            let Some(parent) = address.and_then(|address| provenance.parent(address)) else {
                continue;
            };
            let root = RootId(provenance.roots.len() as u32);
            provenance.roots.push(Root::Field { value, parent });
            provenance.exprs[value.0 as usize] = Expr::Copy(Term::Root(root));
            added.extend(address.map(|address| (root, value, address)));
            found.insert(value, field);
        }
        if added.is_empty() {
            return provenance;
        }
        let Provenance { roots, exprs, .. } = provenance;
        provenance = Provenance::solve(code, dominators, ssa, Lowered { exprs, roots });
        // A field within an element of another field is part of that one.
        for (root, value, address) in added {
            if let Origin::Pointer { root: parent, .. } = provenance.origin(address) {
                provenance.roots[root.0 as usize] = Root::Field { value, parent };
            }
        }
        provenance.fields = found;
        provenance
    }

    /// The value of a register that an instruction reads to make another.
    fn operand(
        &self,
        code: &Code<'_, '_>,
        ssa: &Ssa,
        value: ValueId,
        operand: u8,
    ) -> Option<ValueId> {
        let Definition::Instruction { instruction, .. } = ssa.value(value)?.definition else {
            return None;
        };
        let references = code.references_of(instruction as usize);
        let reference = references
            .iter()
            .find(|reference| reference.operand == operand && reference.role == Role::Read)?;
        Some(reference.value)
    }

    /// What the address of a field is derived from, if that has bounds.
    fn parent(&self, address: ValueId) -> Option<RootId> {
        let Origin::Pointer { root, .. } = self.origin(address) else {
            return None;
        };
        matches!(
            self.root(root)?,
            Root::KernelParameter { .. }
                | Root::Variable { .. }
                | Root::Lookup { .. }
                | Root::Whole { .. }
                | Root::Part { .. }
        )
        .then_some(root)
    }

    /// The field of a [`Root::Field`] of this value.
    pub fn field(&self, value: ValueId) -> Option<&Field> {
        self.fields.get(&value)
    }

    /// Iterates to the fixed point.
    fn solve(
        code: &Code<'_, '_>,
        dominators: &Dominators,
        ssa: &Ssa,
        Lowered { exprs, roots }: Lowered,
    ) -> Provenance {
        let known = pointer_evidence(code, ssa, &exprs, &roots);
        let mut origins = vec![Origin::Unknown; ssa.values.len()];
        for value in ssa.wide_values() {
            origins[value.0 as usize] = Origin::Undefined;
        }
        let joins = Joins {
            dominators,
            ssa,
            roots: &roots,
            symbols: &code.symbols,
            is_entry: code.function.is_entry,
        };
        for round in 0..=ROUNDS {
            let mut changed = false;
            for &ValueId(id) in ssa.wide_values() {
                let id = id as usize;
                let new = joins.evaluate(id, &exprs, &origins, &known);
                // Joined with what was there, so that origins only rise.
                let mut new = origins[id].join(new);
                if new != origins[id] {
                    if round == ROUNDS {
                        new = Origin::Unknown;
                    }
                    origins[id] = new;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
            if round == ROUNDS {
                // Values that still change may affect others: all of those
                // become unknown as well.
                origins
                    .iter_mut()
                    .for_each(|origin| *origin = Origin::Unknown);
            }
        }
        Provenance {
            roots,
            exprs,
            origins,
            fields: FxHashMap::default(),
        }
    }

    /// The origin of a value; unknown in unreachable code, and of what cannot
    /// be an address.
    pub fn origin(&self, value: ValueId) -> Origin {
        self.origins
            .get(value.0 as usize)
            .copied()
            .unwrap_or(Origin::Unknown)
    }

    /// The definition of a value that an instruction makes.
    pub fn expr(&self, value: ValueId) -> Option<Expr> {
        self.exprs.get(value.0 as usize).copied()
    }

    /// The origin of an operand of a definition.
    pub fn origin_of(&self, term: Term) -> Origin {
        match term {
            Term::Value(value) => self.origin(value),
            other => origin_of_term(other, &self.origins, &[]),
        }
    }

    /// The root with that number.
    pub fn root(&self, id: RootId) -> Option<Root> {
        self.roots.get(id.0 as usize).copied()
    }
}

struct Joins<'x> {
    dominators: &'x Dominators,
    ssa: &'x Ssa,
    roots: &'x [Root],
    symbols: &'x [Symbol<'x>],
    is_entry: bool,
}

impl Joins<'_> {
    fn evaluate(
        &self,
        id: usize,
        exprs: &[Expr],
        origins: &[Origin],
        known: &[Certainty],
    ) -> Origin {
        let value = &self.ssa.values[id];
        match value.definition {
            Definition::Undefined => Origin::Undefined,
            Definition::Phi { .. } => self.meet(id, origins),
            Definition::Instruction { old, .. } => {
                let term = |term| origin_of_term(term, origins, known);
                let new = match exprs[id] {
                    Expr::Copy(a) => term(a),
                    Expr::Sure(a, fresh) => match term(a) {
                        // Bits that are a pointer after all.
                        Origin::Integer | Origin::Opaque => {
                            term(Term::Root(fresh)).certain().doubted()
                        }
                        origin => origin.certain(),
                    },
                    Expr::Add(a, b) => term(a).plus(term(b)),
                    Expr::Subtract(a, b) => term(a).minus(term(b)),
                    Expr::Scaled(a, by, unscaled, addend) => {
                        let otherwise = match unscaled {
                            Unscaled::Integer => Origin::Integer,
                            Unscaled::Opaque => Origin::Opaque,
                            Unscaled::Bits => term(a).bits(Origin::Null, Origin::Opaque),
                            Unscaled::Cut(fresh) => {
                                let fresh = term(Term::Root(fresh)).doubted();
                                term(a).bits(Origin::Null, fresh)
                            }
                        };
                        term(a).scaled(by, otherwise).plus(term(addend))
                    }
                    Expr::Select(a, b) => term(a).join(term(b)),
                    Expr::Choose(a, b) => term(a).choose(term(b)),
                    Expr::Combine(a, b) => term(a).combine(term(b)),
                    Expr::Mask(a, b) => term(a).mask(term(b)),
                    Expr::Unpack(a, b, fresh, how) => {
                        let fresh = term(Term::Root(fresh)).doubted();
                        term(a).unpack(term(b), fresh, how == Packed::Summed)
                    }
                    Expr::Packed(fresh) => term(Term::Root(fresh)).doubted(),
                    Expr::Cut(a, b, fresh) => {
                        let fresh = term(Term::Root(fresh)).doubted();
                        term(a).bits(term(b), fresh)
                    }
                    Expr::Bits([a, b, c]) => {
                        let first = term(a).bits(term(b), Origin::Opaque);
                        first.bits(term(c), Origin::Opaque)
                    }
                    Expr::Shuffle(a) => match term(a) {
                        origin @ Origin::Pointer { root, .. } if self.is_shared(root) => origin,
                        origin => origin.bits(Origin::Null, Origin::Opaque),
                    },
                    Expr::Window(a, window) => match term(a) {
                        Origin::Undefined => Origin::Undefined,
                        origin @ Origin::Pointer { root, .. }
                            if self.is_in_window(root) || self.is_looked_up(root) =>
                        {
                            origin.certain()
                        }
                        origin @ Origin::Several {
                            certainty: Certainty::Certain,
                            ..
                        } => origin,
                        _ => term(Term::Root(window)).certain(),
                    },
                    Expr::Narrow(a) | Expr::Resize(a) => match term(a) {
                        Origin::Undefined => Origin::Undefined,
                        origin @ Origin::Pointer { root, .. }
                            if self.is_in_window(root)
                                || (self.is_looked_up(root)
                                    && matches!(exprs[id], Expr::Narrow(_))) =>
                        {
                            origin.certain()
                        }
                        origin @ Origin::Several {
                            certainty: Certainty::Certain,
                            ..
                        } => origin,
                        // Distances of less than 4 GiB survive this.
                        distance @ Origin::Distance(_) => distance,
                        // The narrowed difference of two pointers, too.
                        Origin::Unknown => Origin::Opaque,
                        _ => Origin::Integer,
                    },
                };
                match old {
                    Some(old) => new.join(term(Term::Value(old))),
                    None => new,
                }
            }
        }
    }

    /// What meets in a phi.
    fn meet(&self, id: usize, origins: &[Origin]) -> Origin {
        let mut joined = Origin::Undefined;
        for &argument in self.ssa.phi_arguments(ValueId(id as u32)) {
            joined = joined.join(
                origins
                    .get(argument.0 as usize)
                    .copied()
                    .unwrap_or(Origin::Undefined),
            );
        }
        match joined {
            Origin::Pointer {
                root,
                certainty,
                in_doubt,
            } if !self.survives(root, self.ssa.values[id].block) => Origin::Several {
                certainty,
                in_doubt,
            },
            joined => joined,
        }
    }

    fn is_in_window(&self, root: RootId) -> bool {
        self.roots
            .get(root.0 as usize)
            .is_some_and(|root| root.is_in_window())
    }

    /// Whether a root is a place in the block's shared memory.
    fn is_shared(&self, root: RootId) -> bool {
        match self.roots.get(root.0 as usize) {
            Some(&Root::Whole { symbol }) => self
                .symbols
                .get(symbol.0 as usize)
                .is_some_and(|symbol| symbol.space == SymbolSpace::Shared),
            _ => false,
        }
    }

    fn is_looked_up(&self, root: RootId) -> bool {
        match self.roots.get(root.0 as usize) {
            Some(Root::Lookup { .. }) => true,
            // Callers may pass pointers into any space.
            Some(Root::KernelParameter { .. }) => !self.is_entry,
            _ => false,
        }
    }

    /// Whether a phi in `block` always sees the newest instance of `root`.
    fn survives(&self, root: RootId, block: crate::cfg::BlockId) -> bool {
        let Some(value) = self
            .roots
            .get(root.0 as usize)
            .and_then(|root| root.value())
        else {
            return true;
        };
        let Some(value) = self.ssa.value(value) else {
            return false;
        };
        value.block != block && self.dominators.dominates(value.block, block)
    }
}

fn origin_of_term(term: Term, origins: &[Origin], known: &[Certainty]) -> Origin {
    match term {
        Term::Value(value) => origins
            .get(value.0 as usize)
            .copied()
            .unwrap_or(Origin::Unknown),
        Term::Null => Origin::Null,
        Term::Integer => Origin::Integer,
        Term::Opaque => Origin::Opaque,
        Term::Root(root) => Origin::Pointer {
            root,
            certainty: known
                .get(root.0 as usize)
                .copied()
                .unwrap_or(Certainty::Candidate),
            in_doubt: false,
        },
        Term::Unknown => Origin::Unknown,
    }
}

/// For each root, what shows that it is a pointer.
fn pointer_evidence(
    code: &Code<'_, '_>,
    ssa: &Ssa,
    exprs: &[Expr],
    roots: &[Root],
) -> Vec<Certainty> {
    let mut known: Vec<Certainty> = roots
        .iter()
        .map(|root| match root {
            Root::KernelParameter { .. } | Root::Lookup { .. } => Certainty::Candidate,
            _ => Certainty::Certain,
        })
        .collect();
    for symbol in &code.symbols {
        let SymbolSpace::EntryParameter {
            offset,
            is_pointer: true,
        } = symbol.space
        else {
            continue;
        };
        if let Some(index) = roots
            .iter()
            .position(|&root| root == Root::KernelParameter { offset })
        {
            known[index] = Certainty::Certain;
        }
    }
    let mut mark = |mut value: ValueId| {
        // Long chains of copies do not occur; a bound keeps this linear.
        for _ in 0..64 {
            let Some(Definition::Instruction { old, .. }) = ssa.value(value).map(|v| v.definition)
            else {
                return;
            };
            let old_is_undefined = old.is_none_or(|old| {
                ssa.value(old)
                    .is_some_and(|v| v.definition == Definition::Undefined)
            });
            if !old_is_undefined {
                return;
            }
            let term = match exprs[value.0 as usize] {
                Expr::Copy(term) | Expr::Sure(term, _) => term,
                Expr::Add(term, Term::Integer | Term::Null) => term,
                Expr::Subtract(term, Term::Integer | Term::Null) => term,
                _ => return,
            };
            match term {
                Term::Value(next) => value = next,
                Term::Root(root) => {
                    let known = &mut known[root.0 as usize];
                    *known = Certainty::Evident.max(*known);
                    return;
                }
                _ => return,
            }
        }
    };
    for index in 0..code.instructions.len() {
        let Some(info) = code.info(index) else {
            continue;
        };
        for access in &info.accesses {
            if !matches!(access.space, Space::Global | Space::Generic) {
                continue;
            }
            for reference in code.references_of(index) {
                if reference.role == Role::Address
                    && usize::from(reference.operand) == access.operand
                    && matches!(reference.referent, Referent::Wide(_))
                {
                    mark(reference.value);
                }
            }
        }
    }
    for (value, expr) in exprs.iter().enumerate() {
        if matches!(expr, Expr::Sure(..)) {
            mark(ValueId(value as u32));
        }
    }
    known
}
