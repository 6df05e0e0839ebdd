//! Detection cases, the verdict that each must get, and the runner that judges
//! them.
//!
//! Everything here uses Ringfence from outside: it starts the `ringfence`
//! command on programs that nvcc, or for OpenCL a C compiler, built, and reads
//! the JSON report. It must never get a verdict in any other way, so that the
//! results also hold for a user.

pub mod alone;
pub mod attacks;
pub mod case;
pub mod compare;
pub mod compile;
pub mod foreign;
pub mod judge;
pub mod manager;
pub mod missing;
pub mod opencl;
pub mod process;
pub mod programs;
pub mod results;
pub mod run;
pub mod tenants;
