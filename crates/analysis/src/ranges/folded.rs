//! Sums in which a value and its quotient or its low bits occur together:
//! `x - x / n * n` is a remainder, `x - (x & m)` has the other bits of `x`.
//! Taken apart, the range of such a sum forgets that both are of one `x`.
//!
//! The other way round, where branches have bounded the row `x / n` or the column
//! `x - x / n * n` of an index, `x` is taken apart into both, since their bounds
//! limit `x` only together. `x = (x - r) + r` holds of any `r`, in registers that
//! wrap, too: which `r` is chosen decides how narrow a range is, never whether it
//! is right.

use super::affine::{Affine, AffineId, Symbolic, SymbolicId};
use super::compile::Compile;
use super::facts::{Context, contained};
use super::program::{Node, NodeId};
use crate::operation::Binary;
use smallvec::SmallVec;

/// Facts of a context that are asked for rows and columns.
const MOST_FACTS: usize = 8;

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

/// A sum without one such pair.
struct Folded {
    pair: Pair,
    /// How often the pair occurs in the sum.
    times: i64,
    /// What else the sum has.
    left: Affine,
}

impl Compile<'_, '_, '_> {
    /// The range of a sum in which a term and the value that it was computed
    /// from are taken together; `None` if there is no such term.
    pub(super) fn folded(&mut self, affine: AffineId, context: Context) -> Option<NodeId> {
        let whole = self.expand.expressions.affine(affine).clone();
        if whole.terms.len() < 2 {
            return None;
        }
        let mut best: Option<Folded> = None;
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
            let most = best
                .as_ref()
                .map_or(whole.terms.len(), |best| best.left.terms.len());
            if of.width == whole.width && left.terms.len() < most {
                best = Some(Folded { pair, times, left });
            }
        }
        // A remainder of a remainder: the one that leaves less is the outer one,
        // and the other cannot be found in what it leaves.
        let Folded { pair, times, left } = best?;
        let left = self.expand.expressions.keep(left);
        let left = self.value(left, context);
        let (a, b) = (self.value(pair.of, context), self.value(pair.with, context));
        let made = self.node(Node::Binary(pair.makes, a, b, whole.width));
        Some(self.sum_node(&[(left, 1), (made, times)], 0, whole.width))
    }

    /// The range of a sum of which a value is a part that the context says
    /// something about as a row and a column: `x` as what is left of `x / n * n`,
    /// and the remainder. `None` if there is no such value.
    pub(super) fn split(&mut self, affine: AffineId, mut context: Context) -> Option<NodeId> {
        if self.is_splitting {
            return None;
        }
        let whole = self.expand.expressions.affine(affine).clone();
        let all = context;
        for _ in 0..MOST_FACTS {
            let fact = &self.facts[context? as usize];
            context = fact.before;
            if fact.uniform {
                continue;
            }
            let about: SmallVec<[SymbolicId; 4]> =
                (fact.about.terms.iter().map(|(term, _)| *term)).collect();
            for symbolic in about {
                let Some((product, pair)) = self.product(symbolic, whole.width) else {
                    continue;
                };
                // (Then it is taken apart already.)
                if whole.factor(product) != 0 {
                    continue;
                }
                let of = self.expand.expressions.affine(pair.of).clone();
                let Some(times) = contained(&of, &whole) else {
                    continue;
                };
                let row = term(product, pair.by, whole.width);
                let column = of.plus(&row, -1);
                let left = whole.plus(&column, times.wrapping_neg());
                let left = self.expand.expressions.keep(left);
                let column = self.expand.expressions.keep(column);
                self.is_splitting = true;
                let (left, column) = (self.value(left, all), self.value(column, all));
                self.is_splitting = false;
                return Some(self.sum_node(&[(left, 1), (column, times)], 0, whole.width));
            }
        }
        None
    }

    /// The product of a quotient and its divisor, of which one is given.
    fn product(&mut self, symbolic: SymbolicId, width: u8) -> Option<(SymbolicId, Pair)> {
        let (kind, own) = self.expand.expressions.symbolic(symbolic);
        if own != width {
            return None;
        }
        let mut product = symbolic;
        if let Symbolic::Binary(Binary::Divide(_), _, with) = kind
            && self.expand.expressions.affine(with).as_constant().is_none()
        {
            let quotient = self.expand.expressions.keep(term(symbolic, 1, width));
            let times = Symbolic::Binary(Binary::Multiply, quotient, with);
            product = self.expand.expressions.symbolic_id(times, width);
        }
        let pair = self.pair(product)?;
        matches!(pair.makes, Binary::Remainder(_)).then_some((product, pair))
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
