//! Control flow, dominators, loops and pointer provenance of PTX functions.
//!
//! [`Code`] flattens a function's body and resolves its names; [`Cfg`] is its
//! control flow; [`Dominators`] and [`Loops`] are its structure; [`Ssa`] gives
//! every register that can hold an address a value at every point (PTX is not in SSA form:
//! registers are redefined, and a predicated definition is a
//! may-definition); [`Provenance`] says which buffer each of those values was
//! derived from, after the base pointer analysis of cuCatch (PLDI 2023,
//! 4.1.1).
//!
//! The analysis never guesses: what it cannot follow is
//! [`Origin::Unknown`]. It has no opinion on what is done with the answer.

#![expect(
    clippy::too_many_lines,
    clippy::too_many_arguments,
    reason = "procedures that are still to be split into verbs"
)]

mod alignment;
mod calls;
mod cfg;
mod code;
mod dominators;
mod fields;
mod follow;
mod function;
mod loops;
mod lost;
mod lower;
mod names;
mod objects;
mod origin;
mod printed;
mod provenance;
mod ranges;
mod registers;
mod roles;
mod signature;
mod ssa;
mod visible;

pub use alignment::LowBits;
pub use calls::{Piece, Return, Stored, mentioned, returns, stores};
pub use cfg::{BasicBlock, BlockId, Cfg};
pub use code::{Code, Inst, Reference, Referent, ValueId};
pub use dominators::Dominators;
pub use fields::Field;
pub use function::Analysis;
pub use loops::{Loop, Loops};
pub use lost::Lost;
pub use lower::{BYTES_REGISTER, Expr, Packed, Term};
pub use names::{ModuleSymbols, Symbol, SymbolId, SymbolSpace, WideReg};
pub use objects::{ObjectTable, Place, StackObject};
pub use origin::{Certainty, Leader, Origin, Root, RootId};
pub use printed::{Argument, PRINTF, Print, Printing, Texts, printing, prints};
pub use provenance::Provenance;
pub use ranges::{
    Alignment, BoundedPointer, Bounds, Input, LaunchShape, Program, Query, Unprovable, Values,
};
pub use roles::Role;
pub use signature::{ListOf, Passed, Signature};
pub use ssa::{Definition, Ssa, Value};
pub use visible::{Nameable, end_of_declarations};
