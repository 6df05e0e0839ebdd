//! Tests of the engine. They are one program, because linking takes longer than
//! compiling them.

mod common;
mod engine_demo;
mod engine_kernels;
mod engine_matrix;
mod engine_matrix_measured;
mod engine_ptx;
