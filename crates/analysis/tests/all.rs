//! Tests of analyses over small functions and whole modules. They are one program,
//! because linking takes longer than compiling them.

#[path = "../../emulate/tests/common/mod.rs"]
mod common;
mod fields;
mod low_bits;
mod provenance;
mod ssa;
mod structure;
