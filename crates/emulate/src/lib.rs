//! A CPU device that executes PTX, a warp of 32 lanes at a time.

pub mod arith;
