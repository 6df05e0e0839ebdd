//! The text of checks against shadow memory (`model::layout::shadow`), which
//! decide by the address alone.
//!
//! The bounds pass finds the accesses, groups them, and puts a check before
//! each group. The pass also handles accesses that fail, and the records. Only
//! the comparison is made here: it sets a predicate where some byte of a
//! group is not addressable. `heap::shadow::passes` specifies the result.
//!
//! Shadow memory is only read of pieces that are covered. So the comparison may be
//! made of any address, also where the program's guard is false.

mod blocks;
mod check;

pub(crate) use blocks::function;
pub(crate) use check::{Checked, Form, call, check, declare, outside_only};
