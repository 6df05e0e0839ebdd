//! Control flow, dominators, loops and pointer provenance of PTX functions.
//!
//! [`Code`] flattens a function's body and resolves its names; [`Cfg`] is its
//! control flow; [`Dominators`] and [`Loops`] are its structure; [`Ssa`] gives
//! each register a value wherever an instruction reads or writes it (PTX is not
//! in SSA form: registers are redefined, and a predicated definition is a
//! may-definition). All else is an analysis of these values: [`Provenance`]
//! says which buffer an address was derived from, after the base pointer
//! analysis of cuCatch (PLDI 2023, 4.1.1), [`LowBits`] what it is congruent to,
//! and [`Program`] in which range it lies at a launch.
//!
//! The analysis never guesses: an address that it cannot follow is
//! [`Origin::Unknown`]. How the result is used is left to the caller.

mod alignment;
mod calls;
mod cfg;
mod code;
mod dominators;
mod endings;
mod fields;
mod follow;
mod function;
mod kept;
mod loops;
mod lost;
mod lower;
mod names;
mod objects;
mod open_loops;
mod operation;
mod origin;
mod phis;
mod printed;
mod provenance;
mod ranges;
mod roles;
mod signature;
mod ssa;
mod uses;
mod visible;

pub use alignment::LowBits;
pub use calls::{Piece, Return, Stored, mentioned, returns, stores};
pub use cfg::{BasicBlock, BlockId, Cfg};
pub use code::{Code, GUARD, Inst, Reference, Referent, ValueId};
pub use dominators::Dominators;
pub use endings::{Endings, first_store};
pub use fields::Field;
pub use function::Analysis;
pub use loops::{Loop, Loops};
pub use lost::Lost;
pub use lower::{BYTES_REGISTER, Expr, Packed, Term, Unscaled};
pub use names::{ModuleSymbols, Register, Symbol, SymbolId, SymbolSpace};
pub use objects::{ObjectTable, Place, StackObject};
pub use open_loops::open_loops;
pub use origin::{Certainty, Leader, Origin, Root, RootId};
pub use printed::{Argument, PRINTF, Print, Printing, Texts, printing, prints};
pub use provenance::Provenance;
pub use ranges::{
    Alignment, BoundedPointer, Bounds, InParts, Input, Judged, LaunchShape, Program, Query,
    Unprovable, Values,
};
pub use roles::Role;
pub use signature::{ListOf, Passed, Signature};
pub use ssa::{Definition, Ssa, Value};
pub use uses::Use;
pub use visible::{Nameable, end_of_declarations};
