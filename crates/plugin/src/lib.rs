//! The device plugin: tells a node's kubelet that the node has so many units of
//! `ringfence.dev/gpu-memory`, and gives a container that asks for some of them a
//! slice of the manager's device ([`protocol::Control`]).
//!
//! ```text
//! kubelet ── Register, ListAndWatch, Allocate ─▶ service ─┬▶ units  which units are which slice
//!                                                         └▶ slices ─ control socket ─▶ manager
//! ```
//!
//! The kubelet does not say when a container has ended. So a slice's name holds
//! its units, and a slice ends when one of them is given to somebody else. The
//! plugin keeps nothing that it could lose: the manager has the slices, and the
//! kubelet has what was allocated.
//!
//! [`dra`] is the other form, for clusters with dynamic resource allocation: there,
//! a claim is a slice.
//!
//! It must never give a container a device file, and it decides no limit: the
//! manager keeps it, for the socket that the container sees.

pub mod api;
pub mod dra;
mod health;
mod kubelet;
mod messages;
mod plugin;
mod service;
mod socket;
mod stock;
mod units;

pub use health::Health;
pub use kubelet::{RegisterError, run};
pub use plugin::{AllocateError, Options, Plugin};
pub use service::Service;
pub use units::{MOST_UNITS, Units, UnitsError, prefer};
