//! The ranges of addresses, worked out in two steps: once for a kernel, into
//! a [`Program`] of interval arithmetic; and at each launch, when grid,
//! block, parameters and buffers are known, by [`Program::proves`].
//!
//! [`crate::registers`] says which definition reaches a use; `expand` turns
//! definitions into sums (`form`), as `instructions` says for each opcode;
//! `compile` finds the range of a sum under
//! the branches that dominate a place, with `rounds` for loops, and writes it
//! as a `program` over the sets of `interval`.
//!
//! Everything errs on one side: what is not followed can be anything, and a
//! launch that is not proved runs with checks.

mod compile;
mod expand;
mod form;
mod instructions;
mod interval;
mod program;
mod relative;
mod rounds;
#[cfg(test)]
mod tests;

use crate::function::Analysis;
use crate::names::SymbolId;
use compile::Compile;
pub use compile::Unprovable;
pub use program::{Bounds, Input, LaunchShape, Program, Values};
pub use relative::BoundedPointer;

/// One check that a kernel makes.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Index of the instruction.
    pub instruction: u32,
    /// Index of its address operand, whose own constant does not count.
    pub operand: usize,
    /// The variable that the address was derived from, if it is to be within
    /// that.
    pub symbol: Option<SymbolId>,
    /// The instruction takes the address for a generic one.
    pub generic: bool,
    /// From the address to the first byte.
    pub low: i64,
    /// Bytes.
    pub bytes: u64,
    /// What the bytes must lie in.
    pub bounds: Bounds,
    /// What makes the access aligned.
    pub alignment: Alignment,
}

/// What must hold so that an access is aligned. `bytes` is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Nothing.
    Known,
    /// `at` bytes from the address is a multiple of so many.
    Address {
        /// From the address, without the operand's own constant.
        at: i64,
        /// Bytes.
        bytes: u64,
    },
    /// `residue` bytes from a pointer of the parameters is.
    Parameter {
        /// Where the pointer is among the parameters.
        offset: u32,
        /// From the pointer.
        residue: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl Program {
    /// The program that proves all of `queries`.
    ///
    /// # Errors
    ///
    /// No launch could be proved, because of the query with this index;
    /// `None`: because of the function as a whole.
    pub fn of(
        analysis: &Analysis<'_, '_>,
        queries: &[Query],
    ) -> Result<Program, (Option<usize>, Unprovable)> {
        let mut compile = Compile::of(analysis).ok_or((None, Unprovable::Size))?;
        for (index, query) in queries.iter().enumerate() {
            compile
                .check(query)
                .map_err(|reason| (Some(index), reason))?;
        }
        Ok(compile.finish())
    }
}
