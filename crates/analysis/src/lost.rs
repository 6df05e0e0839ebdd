//! Why it is not known which buffer an address was derived from.

use crate::code::ValueId;
use crate::function::Analysis;
use crate::lower::{Expr, Term};
use crate::origin::Origin;
use crate::ssa::Definition;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an address was made of where its root was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lost {
    /// A number alone: no pointer takes part.
    Number,
    /// Bits that were moved or put together.
    Bits,
    /// Read from another lane.
    Shuffled,
    /// The difference of two words that may be pointers.
    Difference,
    /// The sum of two pointers.
    TwoPointers,
    /// A pointer on one path, a number on another.
    PointerOrNumber,
    /// One of two words, by a rule that is not followed (`min`, `slct`).
    Chosen,
    /// The result of an instruction that is not followed.
    Instruction,
    /// The root is known, but has no bounds here: a variable that cannot be
    /// named where the checks are, or one of another space.
    NoBounds,
}

impl Lost {
    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            Lost::Number => "number",
            Lost::Bits => "bits",
            Lost::Shuffled => "shuffled",
            Lost::Difference => "difference",
            Lost::TwoPointers => "two-pointers",
            Lost::PointerOrNumber => "pointer-or-number",
            Lost::Chosen => "chosen",
            Lost::Instruction => "instruction",
            Lost::NoBounds => "no-bounds",
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lost::Number => "the address is a number",
            Lost::Bits => "the address was put together from bits",
            Lost::Shuffled => "the address is another lane's",
            Lost::Difference => "the difference of two addresses was added",
            Lost::TwoPointers => "two pointers were added",
            Lost::PointerOrNumber => "the address is a pointer or a number",
            Lost::Chosen => "the address is one of two",
            Lost::Instruction => "an instruction is not followed",
            Lost::NoBounds => "the variable cannot be named",
        })
    }
}

/// The most steps of the search.
const STEPS: usize = 1000;

impl Analysis<'_, '_> {
    /// Where the root of an address was lost: the definition, closest to the
    /// address, that none of the operands explains.
    pub fn lost(&self, address: ValueId) -> Lost {
        let mut seen = vec![address];
        let mut value = address;
        for _ in 0..STEPS {
            let (lost, operands) = self.step(value);
            let next = operands.into_iter().find_map(|term| match term {
                Term::Value(next)
                    if !seen.contains(&next) && is_lost(self.provenance.origin(next)) =>
                {
                    Some(next)
                }
                _ => None,
            });
            match next {
                Some(next) => {
                    seen.push(next);
                    value = next;
                }
                None => return lost,
            }
        }
        Lost::Instruction
    }

    /// What a definition loses, unless one of its operands was lost already.
    fn step(&self, value: ValueId) -> (Lost, Vec<Term>) {
        match self.provenance.origin(value) {
            Origin::Null | Origin::Integer => return (Lost::Number, Vec::new()),
            Origin::Pointer { .. } | Origin::Several { .. } => {
                return (Lost::NoBounds, Vec::new());
            }
            _ => {}
        }
        match self.ssa.value(value).map(|value| value.definition) {
            None | Some(Definition::Undefined) => (Lost::Instruction, Vec::new()),
            Some(Definition::Phi { .. }) => {
                let arguments = self.ssa.phi_arguments(value).iter();
                let terms = arguments.map(|&argument| Term::Value(argument)).collect();
                (Lost::PointerOrNumber, terms)
            }
            Some(Definition::Instruction { old, .. }) => {
                let expr = self.provenance.expr(value);
                let (lost, mut operands) = match expr {
                    Some(Expr::Copy(Term::Unknown) | Expr::Packed(_)) | None => {
                        (Lost::Instruction, vec![])
                    }
                    Some(
                        Expr::Copy(a)
                        | Expr::Sure(a, _)
                        | Expr::Window(a, _)
                        | Expr::Resize(a)
                        | Expr::Narrow(a),
                    ) => (Lost::Bits, vec![a]),
                    Some(Expr::Add(a, b) | Expr::Combine(a, b)) => (Lost::TwoPointers, vec![a, b]),
                    Some(Expr::Subtract(a, b)) => (Lost::Difference, vec![a, b]),
                    Some(Expr::Scaled(a, _, _, b)) => (Lost::Bits, vec![a, b]),
                    Some(Expr::Select(a, b)) => (Lost::PointerOrNumber, vec![a, b]),
                    Some(Expr::Choose(a, b)) => (Lost::Chosen, vec![a, b]),
                    Some(Expr::Mask(a, b) | Expr::Unpack(a, b, ..) | Expr::Cut(a, b, _)) => {
                        (Lost::Bits, vec![a, b])
                    }
                    Some(Expr::Bits(operands)) => (Lost::Bits, operands.to_vec()),
                    Some(Expr::Shuffle(_)) => (Lost::Shuffled, vec![]),
                };
                operands.extend(old.map(Term::Value));
                (lost, operands)
            }
        }
    }
}

/// Whether the root of a value was lost, and not that of what is made of it.
fn is_lost(origin: Origin) -> bool {
    matches!(
        origin,
        Origin::Distance(_) | Origin::Opaque | Origin::Unknown
    )
}
