//! Detection cases, what each must be judged as, and the runner that finds
//! out.
//!
//! Everything here looks at Ringfence from outside: it starts the `ringfence`
//! command on programs that nvcc, or for OpenCL a C compiler, built, and reads
//! the JSON report. It must never look at a verdict in any other way, so that
//! what it says holds for a user too.

pub mod attacks;
pub mod case;
pub mod compare;
pub mod compile;
pub mod foreign;
pub mod judge;
pub mod missing;
pub mod opencl;
pub mod process;
pub mod programs;
pub mod results;
pub mod run;
