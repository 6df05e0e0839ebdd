//! What every part of Ringfence that lives in the program's own process
//! needs: the host's call stacks, and the place where findings, errors and
//! coverage go. Nothing here knows CUDA or OpenCL.

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
