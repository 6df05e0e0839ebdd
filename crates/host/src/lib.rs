//! What every part of Ringfence inside the program's process needs: host call
//! stacks, and the output of findings, errors and coverage. Nothing here
//! depends on CUDA or OpenCL.

mod output;
mod python;
mod settings;
pub mod stacks;
mod stderr;
mod unwound;

pub use output::Output;
pub use settings::settings_from_environment;
pub use stacks::Stack;
pub use stderr::write_stderr;
