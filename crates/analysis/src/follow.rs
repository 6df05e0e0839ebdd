//! Follows values back to what they were made from.

use crate::code::{Referent, ValueId};
use crate::function::Analysis;
use crate::lower::{Expr, Packed, Term, Unscaled};
use crate::names::SymbolId;
use crate::origin::{Leader, Origin};
use crate::ssa::Definition;
use ptx::{Mnemonic, Modifier};
use rustc_hash::FxHashSet;

impl Analysis<'_, '_> {
    /// The operands of a definition that its bounds are copied from: one, or
    /// two, between which the decision is made at run time.
    pub fn carried(&self, expr: Expr) -> Vec<Term> {
        let origin = |term| self.provenance.origin_of(term);
        match expr {
            Expr::Copy(a)
            | Expr::Window(a, _)
            | Expr::Resize(a)
            | Expr::Narrow(a)
            | Expr::Shuffle(a) => {
                vec![a]
            }
            Expr::Sure(a, root) => match origin(a) {
                Origin::Integer | Origin::Opaque => vec![Term::Root(root)],
                _ => vec![a],
            },
            Expr::Select(a, b) | Expr::Choose(a, b) => vec![a, b],
            Expr::Subtract(a, _) => vec![a],
            // The result is one of several at most where an operand is.
            Expr::Packed(root) | Expr::Cut(_, _, root) => vec![Term::Root(root)],
            Expr::Unpack(a, b, root, how) => {
                let (first, second) = (origin(a), origin(b));
                let fresh = origin(Term::Root(root)).doubted();
                match first.unpack(second, fresh, how == Packed::Summed) {
                    made if made == fresh => vec![Term::Root(root)],
                    made if made == first => vec![a],
                    made if made == second => vec![b],
                    _ => Vec::new(),
                }
            }
            Expr::Scaled(_, _, Unscaled::Cut(root), _) => vec![Term::Root(root)],
            // A multiple is no pointer.
            Expr::Scaled(.., addend) => match origin(addend).certainty() {
                Some(_) => vec![addend],
                None => Vec::new(),
            },
            Expr::Bits(_) => Vec::new(),
            Expr::Add(a, b) | Expr::Combine(a, b) | Expr::Mask(a, b) => {
                match Leader::of(origin(a), origin(b)) {
                    Leader::First | Leader::FirstInDoubt => vec![a],
                    Leader::Second | Leader::SecondInDoubt => vec![b],
                    Leader::Either => vec![a, b],
                    Leader::Neither => Vec::new(),
                }
            }
        }
    }

    /// Whether a value is a 64-bit address in its own space, however it was
    /// computed from the variable's address.
    pub fn is_wide(&self, value: ValueId) -> bool {
        let mut seen = FxHashSet::default();
        let mut stack = vec![value];
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            let Some(value) = self.ssa.value(id) else {
                return false;
            };
            if self.code.is_narrow(value.register) {
                return false;
            }
            match value.definition {
                Definition::Undefined => {}
                Definition::Phi { .. } => stack.extend(self.ssa.phi_arguments(id)),
                Definition::Instruction {
                    instruction, old, ..
                } => {
                    stack.extend(old);
                    let opcode = &self.code.instructions[instruction as usize]
                        .instruction
                        .opcode;
                    match opcode.mnemonic() {
                        Mnemonic::Cvta if opcode.has(Modifier::To) => continue,
                        Mnemonic::Cvta => return false,
                        _ => {}
                    }
                    let Some(expr) = self.provenance.expr(id) else {
                        return false;
                    };
                    for term in self.carried(expr) {
                        if let Term::Value(value) = term {
                            stack.push(value);
                        }
                    }
                }
            }
        }
        true
    }

    /// The variable and the offset that a value is the address of, where every
    /// step from one to the other is a constant.
    pub fn constant_address(&self, mut value: ValueId) -> Option<(SymbolId, i64)> {
        let mut offset = 0i64;
        for _ in 0..16 {
            let (at, source) = self.ssa.source(&self.code, value)?;
            let instruction = self.code.instructions[at].instruction;
            match instruction.opcode.mnemonic() {
                Mnemonic::Mov | Mnemonic::Cvta if instruction.operands.len() == 2 => {}
                Mnemonic::Add => offset = offset.checked_add(self.code.constant(at, 2)?)?,
                _ => return None,
            }
            match source.referent {
                Referent::Symbol(symbol, constant) => {
                    return Some((symbol, offset.checked_add(constant)?));
                }
                Referent::Wide(_) => value = source.value,
                Referent::Other(_) => return None,
            }
        }
        None
    }
}
