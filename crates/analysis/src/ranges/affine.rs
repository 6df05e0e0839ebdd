//! Values as affine expressions: a constant plus multiples of [`Symbolic`]s,
//! modulo a power of two. Two values that are computed in different ways from
//! the same symbols have the same expression: a guard on one also restricts
//! the other, and equal terms of a difference cancel.

use super::relation::Relation;
use crate::code::ValueId;
use crate::names::SymbolId;
use crate::operation::{Binary, View, Width, wrap};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Index of a [`Symbolic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SymbolicId(pub(crate) u32);

/// Index of an [`Affine`] expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AffineId(pub(crate) u32);

/// Index of a [`Condition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConditionId(pub(crate) u32);

/// A special register. The grid and block of the launch determine its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Special {
    /// `%tid`, by axis.
    Thread(u8),
    /// `%ntid`
    Threads(u8),
    /// `%ctaid`
    Block(u8),
    /// `%nctaid`
    Blocks(u8),
    /// `%laneid`
    Lane,
}

/// A symbol of an affine expression: a value that is not split further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Symbolic {
    /// Bytes of the kernel's parameters.
    Parameter {
        offset: u32,
        bytes: u8,
    },
    /// A special register, 32 bits.
    Special(Special),
    /// The address of a variable, as its own space has it.
    Symbol(SymbolId),
    /// The same, as the generic space has it.
    Generic(SymbolId),
    /// Anything between two numbers.
    Between(ValueId, i64, i64),
    /// Anything.
    Opaque(ValueId),
    /// The result of a phi.
    Phi(ValueId),
    /// The distance of a phi's result from the address of a variable, which all
    /// its arguments are derived from.
    Within(ValueId, SymbolicId),
    /// A narrower value, extended.
    Extend(View, Width, AffineId),
    Binary(Binary, AffineId, AffineId),
    Absolute(AffineId),
    /// The first where the condition holds, else the second.
    Select(ConditionId, AffineId, AffineId),
    /// Another affine expression, as one term.
    Sum(AffineId),
}

/// An affine expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Affine {
    pub(crate) width: Width,
    /// Symbols with their factors, in order of index. No factor is zero.
    pub(crate) terms: SmallVec<[(SymbolicId, i64); 4]>,
    pub(crate) constant: i64,
}

impl Affine {
    pub(crate) fn constant(value: i128, width: Width) -> Affine {
        Affine {
            width,
            terms: SmallVec::new(),
            constant: wrap(value, width),
        }
    }

    pub(crate) fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The factor of a symbol; zero if it has no term.
    pub(crate) fn factor(&self, symbolic: SymbolicId) -> i64 {
        self.terms
            .iter()
            .find(|(other, _)| *other == symbolic)
            .map_or(0, |(_, factor)| *factor)
    }

    /// `self + other * by`
    pub(crate) fn plus(&self, other: &Affine, by: i64) -> Affine {
        let width = self.width;
        let mut terms: SmallVec<[(SymbolicId, i64); 4]> = SmallVec::new();
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        let scaled = |factor: i64| wrap(i128::from(factor) * i128::from(by), width);
        loop {
            let (symbolic, factor) = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    let sum = i128::from(a.1) + i128::from(scaled(b.1));
                    let symbolic = a.0;
                    left.next();
                    right.next();
                    (symbolic, wrap(sum, width))
                }
                (Some(a), Some(b)) if a.0 > b.0 => {
                    let term = (b.0, scaled(b.1));
                    right.next();
                    term
                }
                (Some(&&a), _) => {
                    left.next();
                    a
                }
                (None, Some(b)) => {
                    let term = (b.0, scaled(b.1));
                    right.next();
                    term
                }
                (None, None) => break,
            };
            if factor != 0 {
                terms.push((symbolic, factor));
            }
        }
        let constant = i128::from(self.constant) + i128::from(other.constant) * i128::from(by);
        Affine {
            width,
            terms,
            constant: wrap(constant, width),
        }
    }

    pub(crate) fn times(&self, by: i64) -> Affine {
        Affine::constant(0, self.width).plus(self, by)
    }
}

/// The condition under which a predicate is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    Unknown,
    Compare(Relation, AffineId, AffineId),
    And(ConditionId, ConditionId),
    Or(ConditionId, ConditionId),
    Not(ConditionId),
}

/// The leaves that a value depends on, in order. (A phi is a leaf: its
/// arguments are not followed.)
pub(crate) type Support = SmallVec<[SymbolicId; 6]>;

/// All affine expressions, symbols and conditions of a function, each stored
/// once.
#[derive(Default)]
pub(crate) struct Expressions {
    affines: Vec<Affine>,
    affine_ids: FxHashMap<Affine, AffineId>,
    affine_support: Vec<Support>,
    symbolics: Vec<(Symbolic, Width)>,
    symbolic_ids: FxHashMap<(Symbolic, Width), SymbolicId>,
    symbolic_support: Vec<Support>,
    conditions: Vec<Condition>,
    condition_ids: FxHashMap<Condition, ConditionId>,
    condition_support: Vec<Support>,
}

/// An expression with more terms is split in two.
const MOST_TERMS: usize = 12;

impl Expressions {
    pub(crate) fn affine(&self, id: AffineId) -> &Affine {
        &self.affines[id.0 as usize]
    }

    pub(crate) fn symbolic(&self, id: SymbolicId) -> (Symbolic, Width) {
        self.symbolics[id.0 as usize]
    }

    pub(crate) fn condition(&self, id: ConditionId) -> Condition {
        self.conditions[id.0 as usize]
    }

    pub(crate) fn support(&self, id: AffineId) -> &Support {
        &self.affine_support[id.0 as usize]
    }

    pub(crate) fn symbolic_support(&self, id: SymbolicId) -> &Support {
        &self.symbolic_support[id.0 as usize]
    }

    /// Whether leaves are the same numbers for all threads of a launch.
    pub(crate) fn are_shared(&self, support: &Support) -> bool {
        support.iter().all(|leaf| {
            matches!(
                self.symbolic(*leaf).0,
                Symbolic::Parameter { .. }
                    | Symbolic::Special(Special::Threads(_) | Special::Blocks(_))
            )
        })
    }

    pub(crate) fn keep(&mut self, affine: Affine) -> AffineId {
        if let Some(id) = self.affine_ids.get(&affine) {
            return *id;
        }
        if affine.terms.len() > MOST_TERMS {
            let (first, rest) = affine.terms.split_at(MOST_TERMS / 2);
            let part = |terms: &[(SymbolicId, i64)]| Affine {
                width: affine.width,
                terms: terms.iter().copied().collect(),
                constant: 0,
            };
            let (first, rest) = (part(first), part(rest));
            let first = self.keep(first);
            let sum = self.symbolic_affine(Symbolic::Sum(first), affine.width);
            let mut whole = self.affine(sum).plus(&rest, 1);
            whole.constant = affine.constant;
            return self.keep(whole);
        }
        let mut support = Support::new();
        for (symbolic, _) in &affine.terms {
            merge(&mut support, &self.symbolic_support[symbolic.0 as usize]);
        }
        let id = AffineId(self.affines.len() as u32);
        self.affines.push(affine.clone());
        self.affine_support.push(support);
        self.affine_ids.insert(affine, id);
        id
    }

    pub(crate) fn constant(&mut self, value: i128, width: Width) -> AffineId {
        self.keep(Affine::constant(value, width))
    }

    /// A symbol as an affine expression.
    pub(crate) fn symbolic_affine(&mut self, symbolic: Symbolic, width: Width) -> AffineId {
        let id = self.symbolic_id(symbolic, width);
        let mut affine = Affine::constant(0, width);
        affine.terms.push((id, 1));
        self.keep(affine)
    }

    pub(crate) fn symbolic_id(&mut self, symbolic: Symbolic, width: Width) -> SymbolicId {
        if let Some(id) = self.symbolic_ids.get(&(symbolic, width)) {
            return *id;
        }
        let id = SymbolicId(self.symbolics.len() as u32);
        let mut support = Support::new();
        match symbolic {
            Symbolic::Parameter { .. }
            | Symbolic::Special(_)
            | Symbolic::Symbol(_)
            | Symbolic::Generic(_)
            | Symbolic::Between(..)
            | Symbolic::Opaque(_)
            | Symbolic::Phi(_)
            | Symbolic::Within(..) => support.push(id),
            Symbolic::Extend(_, _, a) | Symbolic::Absolute(a) | Symbolic::Sum(a) => {
                merge(&mut support, &self.affine_support[a.0 as usize]);
            }
            Symbolic::Binary(_, a, b) => {
                merge(&mut support, &self.affine_support[a.0 as usize]);
                merge(&mut support, &self.affine_support[b.0 as usize]);
            }
            Symbolic::Select(condition, a, b) => {
                merge(&mut support, &self.affine_support[a.0 as usize]);
                merge(&mut support, &self.affine_support[b.0 as usize]);
                merge(&mut support, &self.condition_support[condition.0 as usize]);
            }
        }
        self.symbolics.push((symbolic, width));
        self.symbolic_support.push(support);
        self.symbolic_ids.insert((symbolic, width), id);
        id
    }

    pub(crate) fn keep_condition(&mut self, condition: Condition) -> ConditionId {
        if let Some(id) = self.condition_ids.get(&condition) {
            return *id;
        }
        let mut support = Support::new();
        match condition {
            Condition::Unknown => {}
            Condition::Compare(_, a, b) => {
                merge(&mut support, &self.affine_support[a.0 as usize]);
                merge(&mut support, &self.affine_support[b.0 as usize]);
            }
            Condition::And(a, b) | Condition::Or(a, b) => {
                merge(&mut support, &self.condition_support[a.0 as usize]);
                merge(&mut support, &self.condition_support[b.0 as usize]);
            }
            Condition::Not(a) => merge(&mut support, &self.condition_support[a.0 as usize]),
        }
        let id = ConditionId(self.conditions.len() as u32);
        self.conditions.push(condition);
        self.condition_support.push(support);
        self.condition_ids.insert(condition, id);
        id
    }

    /// The number of expressions, symbols and conditions.
    pub(crate) fn size(&self) -> usize {
        self.affines.len() + self.symbolics.len() + self.conditions.len()
    }
}

fn merge(into: &mut Support, other: &Support) {
    for symbolic in other {
        if let Err(at) = into.binary_search(symbolic) {
            into.insert(at, *symbolic);
        }
    }
}

/// Whether two ordered lists share an element.
pub(crate) fn share(a: &Support, b: &Support) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short
        .iter()
        .any(|symbolic| long.binary_search(symbolic).is_ok())
}
