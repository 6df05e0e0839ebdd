//! The ranges of addresses, computed in two steps. Once for a kernel, its
//! address arithmetic is compiled into a [`Program`] of interval arithmetic.
//! At each launch, when grid, block, parameters and buffers are known,
//! [`Program::proves`] evaluates that program.
//!
//! [`crate::Ssa`] gives the definition that reaches a use. `expand` turns
//! definitions into affine expressions (`affine`); `instructions` has the
//! rule for each opcode. `compile` computes the range of an expression at an
//! instruction, limited by the branches that dominate it; `trips` does this
//! for loops; what a loop carries in another way is found for each launch, by
//! iteration (`recurrence`). The result is a `program` over the intervals of `interval`.
//!
//! The analysis is conservative: a value that it cannot follow has the full
//! range, and a launch that is not proved runs with its checks.

mod affine;
mod choices;
mod compile;
mod expand;
mod facts;
mod folded;
mod instructions;
mod interval;
mod parts;
mod program;
mod recurrence;
mod relation;
mod relative;
mod siblings;
mod staying;
#[cfg(test)]
mod tests;
mod trips;
mod well_formed;
mod within;

use crate::function::Analysis;
use crate::names::SymbolId;
use compile::Compile;
pub use compile::Unprovable;
pub use parts::InParts;
pub use program::{Bounds, Input, Judged, LaunchShape, Program, Values};
pub use relative::BoundedPointer;
use serde::{Deserialize, Serialize};

/// One check that a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// Index of the instruction.
    pub instruction: u32,
    /// Index of its address operand, whose own constant does not count.
    pub operand: usize,
    /// The variable that the address was derived from, if the access is
    /// checked against that variable.
    pub symbol: Option<SymbolId>,
    /// The instruction uses generic addresses.
    pub generic: bool,
    /// Offset of the first accessed byte from the address.
    pub low: i64,
    /// Number of bytes.
    pub bytes: u64,
    /// The bounds that must contain the bytes.
    pub bounds: Bounds,
    /// The condition for the access to be aligned.
    pub alignment: Alignment,
}

/// The condition for an access to be aligned. `bytes` is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Alignment {
    /// None: the access is known to be aligned.
    Known,
    /// The address plus `at` is a multiple of `bytes`.
    Address {
        /// From the address, without the operand's own constant.
        at: i64,
        /// Bytes.
        bytes: u64,
    },
    /// A pointer of the parameters plus `residue` is a multiple of `bytes`.
    Parameter {
        /// Offset of the pointer among the parameters.
        offset: u32,
        /// Offset from the pointer.
        residue: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl Program {
    /// The program that decides whether all of `queries` hold.
    ///
    /// # Errors
    ///
    /// No launch could be proved. The index is that of the query that is the
    /// reason; `None` if the function as a whole is.
    pub fn of(
        analysis: &Analysis<'_, '_>,
        queries: &[Query],
    ) -> Result<Program, (Option<usize>, Unprovable)> {
        let mut compile = Compile::of(analysis).ok_or((None, Unprovable::Size))?;
        for (index, query) in queries.iter().enumerate() {
            compile.queries = index as u32;
            compile
                .check(query)
                .map_err(|reason| (Some(index), reason))?;
        }
        compile.finish()
    }

    /// Which of `queries` can be decided at a launch, each for itself: those of
    /// which [`Program::of`] makes a program, whatever the others are. What is
    /// proved of one access must not depend on the others being in bounds: a
    /// launch may run a kernel in which they are checked, and a load that fails
    /// its check reads zero.
    pub fn provable(analysis: &Analysis<'_, '_>, queries: &[Query]) -> Vec<bool> {
        let mut provable = vec![false; queries.len()];
        let Some(mut compile) = Compile::of(analysis) else {
            return provable;
        };
        for (index, (query, is_provable)) in queries.iter().zip(&mut provable).enumerate() {
            compile.queries = index as u32;
            match compile.check(query) {
                Ok(()) => *is_provable = true,
                Err(Unprovable::Address | Unprovable::Buffer) => {}
                // The program is full.
                Err(Unprovable::Size) => break,
            }
        }
        provable
    }
}
