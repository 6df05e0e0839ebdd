//! Values as sums: a constant and multiples of [`Atom`]s, modulo a power of
//! two. Two values that are computed in different ways but from the same
//! things come out as the same sum, so that what a guard says of one is known
//! of the other, and differences cancel.

use super::interval::{Relation, View, Width};
use crate::names::SymbolId;
use crate::registers::Reaching;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Number of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AtomId(pub(crate) u32);

/// Number of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FormId(pub(crate) u32);

/// Number of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConditionId(pub(crate) u32);

/// A special register, whose range the launch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Something that a sum is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Atom {
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
    Between(Reaching, i64, i64),
    /// Anything.
    Opaque(Reaching),
    /// What a phi chooses.
    Phi(Reaching),
    /// A narrower value, extended.
    Extend(View, Width, FormId),
    Multiply(FormId, FormId),
    And(FormId, FormId),
    Or(FormId, FormId),
    Xor(FormId, FormId),
    ShiftLeft(FormId, FormId),
    ShiftRight(View, FormId, FormId),
    Divide(View, FormId, FormId),
    Remainder(View, FormId, FormId),
    Minimum(View, FormId, FormId),
    Maximum(View, FormId, FormId),
    Absolute(FormId),
    /// The first where the condition holds, else the second.
    Select(ConditionId, FormId, FormId),
    /// A sum of its own.
    Sum(FormId),
}

/// A sum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) width: Width,
    /// Atoms with their factors, in order of number, none of which is zero.
    pub(crate) terms: SmallVec<[(AtomId, i64); 4]>,
    pub(crate) constant: i64,
}

impl Form {
    pub(crate) fn constant(value: i128, width: Width) -> Form {
        Form {
            width,
            terms: SmallVec::new(),
            constant: wrap(value, width),
        }
    }

    pub(crate) fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The factor of an atom.
    pub(crate) fn factor(&self, atom: AtomId) -> i64 {
        self.terms
            .iter()
            .find(|(other, _)| *other == atom)
            .map_or(0, |(_, factor)| *factor)
    }

    /// `self + other * by`
    pub(crate) fn plus(&self, other: &Form, by: i64) -> Form {
        let width = self.width;
        let mut terms: SmallVec<[(AtomId, i64); 4]> = SmallVec::new();
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        let scaled = |factor: i64| wrap(i128::from(factor) * i128::from(by), width);
        loop {
            let (atom, factor) = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    let sum = i128::from(a.1) + i128::from(scaled(b.1));
                    let atom = a.0;
                    left.next();
                    right.next();
                    (atom, wrap(sum, width))
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
                terms.push((atom, factor));
            }
        }
        let constant = i128::from(self.constant) + i128::from(other.constant) * i128::from(by);
        Form {
            width,
            terms,
            constant: wrap(constant, width),
        }
    }

    pub(crate) fn times(&self, by: i64) -> Form {
        Form::constant(0, self.width).plus(self, by)
    }
}

/// The number in the signed range that is congruent.
pub(crate) fn wrap(value: i128, width: Width) -> i64 {
    let shift = 128 - u32::from(width);
    ((value << shift) >> shift) as i64
}

/// What a predicate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    Unknown,
    Compare(Relation, FormId, FormId),
    And(ConditionId, ConditionId),
    Or(ConditionId, ConditionId),
    Not(ConditionId),
}

/// Leaves that a value depends on, in order. (A phi is a leaf: what it
/// chooses from is no longer the value's concern.)
pub(crate) type Support = SmallVec<[AtomId; 6]>;

/// All forms, atoms and conditions of a function, each kept once.
#[derive(Default)]
pub(crate) struct Forms {
    forms: Vec<Form>,
    form_ids: FxHashMap<Form, FormId>,
    form_support: Vec<Support>,
    atoms: Vec<(Atom, Width)>,
    atom_ids: FxHashMap<(Atom, Width), AtomId>,
    atom_support: Vec<Support>,
    conditions: Vec<Condition>,
    condition_ids: FxHashMap<Condition, ConditionId>,
    condition_support: Vec<Support>,
}

/// Terms after which a sum is broken up.
const MOST_TERMS: usize = 12;

impl Forms {
    pub(crate) fn form(&self, id: FormId) -> &Form {
        &self.forms[id.0 as usize]
    }

    pub(crate) fn atom(&self, id: AtomId) -> (Atom, Width) {
        self.atoms[id.0 as usize]
    }

    pub(crate) fn condition(&self, id: ConditionId) -> Condition {
        self.conditions[id.0 as usize]
    }

    pub(crate) fn support(&self, id: FormId) -> &Support {
        &self.form_support[id.0 as usize]
    }

    pub(crate) fn atom_support(&self, id: AtomId) -> &Support {
        &self.atom_support[id.0 as usize]
    }

    pub(crate) fn keep(&mut self, form: Form) -> FormId {
        if let Some(id) = self.form_ids.get(&form) {
            return *id;
        }
        if form.terms.len() > MOST_TERMS {
            let (first, rest) = form.terms.split_at(MOST_TERMS / 2);
            let part = |terms: &[(AtomId, i64)]| Form {
                width: form.width,
                terms: terms.iter().copied().collect(),
                constant: 0,
            };
            let (first, rest) = (part(first), part(rest));
            let first = self.keep(first);
            let sum = self.atom_form(Atom::Sum(first), form.width);
            let mut whole = self.form(sum).plus(&rest, 1);
            whole.constant = form.constant;
            return self.keep(whole);
        }
        let mut support = Support::new();
        for (atom, _) in &form.terms {
            merge(&mut support, &self.atom_support[atom.0 as usize]);
        }
        let id = FormId(self.forms.len() as u32);
        self.forms.push(form.clone());
        self.form_support.push(support);
        self.form_ids.insert(form, id);
        id
    }

    pub(crate) fn constant(&mut self, value: i128, width: Width) -> FormId {
        self.keep(Form::constant(value, width))
    }

    /// An atom as a sum.
    pub(crate) fn atom_form(&mut self, atom: Atom, width: Width) -> FormId {
        let id = self.atom_id(atom, width);
        let mut form = Form::constant(0, width);
        form.terms.push((id, 1));
        self.keep(form)
    }

    pub(crate) fn atom_id(&mut self, atom: Atom, width: Width) -> AtomId {
        if let Some(id) = self.atom_ids.get(&(atom, width)) {
            return *id;
        }
        let id = AtomId(self.atoms.len() as u32);
        let mut support = Support::new();
        match atom {
            Atom::Parameter { .. }
            | Atom::Special(_)
            | Atom::Symbol(_)
            | Atom::Generic(_)
            | Atom::Between(..)
            | Atom::Opaque(_)
            | Atom::Phi(_) => support.push(id),
            Atom::Extend(_, _, a) | Atom::Absolute(a) | Atom::Sum(a) => {
                merge(&mut support, &self.form_support[a.0 as usize]);
            }
            Atom::Multiply(a, b)
            | Atom::And(a, b)
            | Atom::Or(a, b)
            | Atom::Xor(a, b)
            | Atom::ShiftLeft(a, b)
            | Atom::ShiftRight(_, a, b)
            | Atom::Divide(_, a, b)
            | Atom::Remainder(_, a, b)
            | Atom::Minimum(_, a, b)
            | Atom::Maximum(_, a, b) => {
                merge(&mut support, &self.form_support[a.0 as usize]);
                merge(&mut support, &self.form_support[b.0 as usize]);
            }
            Atom::Select(condition, a, b) => {
                merge(&mut support, &self.form_support[a.0 as usize]);
                merge(&mut support, &self.form_support[b.0 as usize]);
                merge(&mut support, &self.condition_support[condition.0 as usize]);
            }
        }
        self.atoms.push((atom, width));
        self.atom_support.push(support);
        self.atom_ids.insert((atom, width), id);
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
                merge(&mut support, &self.form_support[a.0 as usize]);
                merge(&mut support, &self.form_support[b.0 as usize]);
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

    /// How many nodes were made.
    pub(crate) fn size(&self) -> usize {
        self.forms.len() + self.atoms.len() + self.conditions.len()
    }
}

fn merge(into: &mut Support, other: &Support) {
    for atom in other {
        if let Err(at) = into.binary_search(atom) {
            into.insert(at, *atom);
        }
    }
}

/// Whether two ordered lists share an element.
pub(crate) fn share(a: &Support, b: &Support) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short.iter().any(|atom| long.binary_search(atom).is_ok())
}
