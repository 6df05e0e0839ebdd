//! Sums in which a value and its quotient or its low bits occur together:
//! `x - x / n * n` is a remainder, `x - (x & m)` has the other bits of `x`.
//! Taken apart, the range of such a sum forgets that both are of one `x`.

use super::affine::{Affine, AffineId, Symbolic, SymbolicId};
use super::compile::Compile;
use super::facts::Context;
use super::program::{Node, NodeId};
use crate::operation::Binary;

/// What a term of a sum makes with a value that it was computed from.
struct Pair {
    /// The value.
    of: AffineId,
    /// `of - by * term` is the result of `makes`.
    by: i64,
    makes: Binary,
    /// The second operand.
    with: AffineId,
}

impl Compile<'_, '_, '_> {
    /// The range of a sum in which a term and the value that it was computed
    /// from are taken together; `None` if there is no such term.
    pub(super) fn folded(&mut self, affine: AffineId, context: Context) -> Option<NodeId> {
        let whole = self.expand.expressions.affine(affine).clone();
        if whole.terms.len() < 2 {
            return None;
        }
        for &(symbolic, factor) in &whole.terms {
            let Some(pair) = self.pair(symbolic) else {
                continue;
            };
            let Some(times) = factor.checked_neg().and_then(|f| f.checked_div(pair.by)) else {
                continue;
            };
            if times == 0 || times.checked_mul(pair.by) != factor.checked_neg() {
                continue;
            }
            let of = self.expand.expressions.affine(pair.of).clone();
            let mut left = whole.plus(&of, times.wrapping_neg());
            left = left.plus(&term(symbolic, factor, whole.width), -1);
            // (Each step leaves fewer terms: this ends.)
            if of.width != whole.width || left.terms.len() >= whole.terms.len() {
                continue;
            }
            let left = self.expand.expressions.keep(left);
            let left = self.value(left, context);
            let (a, b) = (self.value(pair.of, context), self.value(pair.with, context));
            let made = self.node(Node::Binary(pair.makes, a, b, whole.width));
            return Some(self.sum_node(&[(left, 1), (made, times)], 0, whole.width));
        }
        None
    }

    /// The value that a term was computed from, if the difference of the two is
    /// an operation of its own.
    fn pair(&mut self, symbolic: SymbolicId) -> Option<Pair> {
        let expressions = &self.expand.expressions;
        let (kind, width) = expressions.symbolic(symbolic);
        match kind {
            Symbolic::Binary(Binary::Divide(view), of, with) => Some(Pair {
                of,
                by: expressions.affine(with).as_constant()?,
                makes: Binary::Remainder(view),
                with,
            }),
            Symbolic::Binary(Binary::Multiply, a, b) => {
                let quotient = |quotient: AffineId, by: AffineId| {
                    let affine = expressions.affine(quotient);
                    let ([(term, 1)], 0) = (affine.terms.as_slice(), affine.constant) else {
                        return None;
                    };
                    match expressions.symbolic(*term) {
                        (Symbolic::Binary(Binary::Divide(view), of, with), own)
                            if with == by && own == width =>
                        {
                            Some(Pair {
                                of,
                                by: 1,
                                makes: Binary::Remainder(view),
                                with,
                            })
                        }
                        _ => None,
                    }
                };
                quotient(a, b).or_else(|| quotient(b, a))
            }
            Symbolic::Binary(Binary::And, of, mask) => {
                let others = Affine::constant(-1, width);
                let others = others.plus(expressions.affine(mask), -1);
                Some(Pair {
                    of,
                    by: 1,
                    makes: Binary::And,
                    with: self.expand.expressions.keep(others),
                })
            }
            _ => None,
        }
    }
}

/// A multiple of one symbol.
fn term(symbolic: SymbolicId, factor: i64, width: u8) -> Affine {
    let mut affine = Affine::constant(0, width);
    affine.terms.push((symbolic, factor));
    affine
}
