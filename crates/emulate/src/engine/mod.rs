//! The engine: decodes, links and executes PTX.
//!
//! [`Program::link`] turns parsed modules into decoded instructions;
//! [`Machine::launch`] runs an entry over a grid. The engine has no streams,
//! contexts or CUDA API: those are [`crate::device`]'s.
//!
//! | module | holds |
//! | --- | --- |
//! | `link`, `initializer`, `program` | names, variables, what a program is |
//! | `decode` | statements to instructions |
//! | `inst`, `lanes` | instructions, registers, handlers from scalar functions |
//! | `warp` | lanes, divergence, reconvergence |
//! | `context`, `access` | what a worker shares; accesses to memory |
//! | `ops` | the families of instructions |
//! | `machine` | grids, blocks, threads of the host |
//! | `children` | what kernels launch |
//! | `contained` | launches of programs that others do not trust |

mod access;
mod children;
mod contained;
mod context;
mod decode;
mod fault;

mod heap;
mod initializer;
mod inst;
mod lanes;
mod link;
mod machine;
pub(crate) mod ops;
mod processors;
mod program;
mod warp;

pub use contained::Contained;
pub use fault::{Fault, FaultKind, LoadError};
pub use heap::DeviceHeap;
pub use machine::{LaunchConfig, Machine, Options, Printer, Stats, Stream};
pub use processors::Processors;
pub use program::{Entry, Parameter, Program, Variable};
