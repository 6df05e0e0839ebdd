//! A CPU device that executes PTX, a warp of 32 lanes at a time.
//!
//! * [`mapping`]: the memory of device code, and every access to it; the
//!   crate's only `unsafe`.
//! * [`arith`]: what each instruction computes, as pure scalar functions.
//! * [`engine`]: decodes, links and executes PTX modules.
//! * [`device`]: allocations, streams, events and modules over the engine.
//!
//! Never depends on `instrument`: this is the independent oracle for original
//! and instrumented PTX alike.

pub mod arith;
pub mod device;
pub mod engine;
pub mod mapping;

pub use device::Device;
