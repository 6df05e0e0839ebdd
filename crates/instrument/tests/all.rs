//! Tests of the pass and of its verifier. They are one program, because linking takes
//! longer than compiling them.

mod bench_proofs;
mod common;
mod defects;
mod endings;
mod fence;
mod fence_calls;
mod fence_ends;
mod fence_pointers;
mod fence_waits;
mod fields;
mod filetests;
mod heap_only;
mod kept;
mod mutations;
mod proof_traps;
mod properties;
mod ptxas;
mod residual;
mod rounds;
mod rows;
mod verifier;
