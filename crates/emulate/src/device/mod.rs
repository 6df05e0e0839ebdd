//! The CPU device: contexts, streams, events, allocations and modules over
//! [`crate::engine`], with the rules and error codes of the CUDA driver API.
//!
//! * One device, one memory map; contexts are names with a count.
//! * A stream is a queue with a thread of its own (`queue`), so kernels of
//!   different streams run at the same time, and a kernel that never ends
//!   holds up nothing but what waits for its stream.
//! * An error of a kernel is sticky: every later call returns it until the
//!   context is gone (CUDA driver API, "sticky errors").
//!
//! Handles are numbers that mean nothing but "this object"; an unknown one is
//! `CUDA_ERROR_INVALID_HANDLE`. Never waits for a kernel unless the caller
//! asked to wait, and never touches host memory that is not registered but
//! through [`Host`].

mod basics;
mod calls;
mod core;
mod objects;
mod properties;
mod state;
#[cfg(test)]
mod tests;

pub use crate::engine::Contained;
pub use basics::{Host, Options, Result};
pub use objects::advice::{Advice, Advised, Place};
pub use objects::array::ArrayShape;
pub use objects::capture::CaptureInfo;
pub use objects::copy::{Copy, Fill, Side};
pub use objects::graph::{GraphNode, NodeKind};
pub use objects::launch::Launch;
pub use objects::memory::{HostFlags, PointerInfo};
pub use objects::module::FunctionInfo;
pub use objects::queue::GREATEST_PRIORITY;
pub use objects::texture::{Plane, Sampler, Texture};
pub use objects::work::{Condition, HostFunction};
pub use properties::{Occupancy, WARP_SIZE};
pub use state::Device;
