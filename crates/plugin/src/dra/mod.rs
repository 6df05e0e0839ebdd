//! The driver for dynamic resource allocation (DRA): tells the cluster which memory
//! a node's device has, and makes a slice of each claim that a pod brings.
//!
//! ```text
//! API server ◀─ ResourceSlices ── publish ◀─ health ◀─ manager
//! kubelet ── Prepare(claim) ─▶ service ─▶ driver ─┬▶ cluster  what was allocated to it
//!                                                 ├▶ claim    which slice that is
//!                                                 ├▶ manager  makes it
//!                                                 └▶ a file for the container runtime
//! ```
//!
//! The driver keeps nothing that it could lose: a slice's name holds the UID of its
//! claim, and so does the file's. So preparing a claim again, by this process or by
//! the next one, finds what is there.
//!
//! It must never give a container a device file, and it decides no limit: the
//! manager keeps it, for the socket that the container sees.

pub mod api;
mod claim;
mod cluster;
mod driver;
mod publish;
mod quantity;
mod resource_slices;
mod run;
mod service;

pub use claim::{ClaimError, PARAMETERS, Prepared, PreparedDevice, ResourceClaim, prepared};
pub use cluster::{Access, ClusterError};
pub use driver::{Options, PrepareError};
pub use publish::PublishError;
pub use quantity::{QuantityError, quantity, written};
pub use resource_slices::{
    DEVICES_PER_SLICE, MOST_UNITS, Pool, ResourceSlice, Sharing, resource_slices,
};
pub use run::{RunError, run};

/// The driver's name in the cluster.
pub const DRIVER: &str = "gpu-memory.ringfence.dev";

/// Writes a line to stderr; what that does not take is lost.
pub(crate) fn say(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("ringfence-dra-driver: {text}\n").as_bytes());
}
