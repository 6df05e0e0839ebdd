//! The manager: owns a device, and runs on it what tenants ask for, who do not
//! trust each other (Guardian, Middleware 2024, section 4.2).
//!
//! ```text
//! tenant ── request ─▶ session ─┬▶ memory    addresses: only the tenant's allocations
//!                               ├▶ numbers   handles: only what the tenant was given
//!                               ├▶ compile   code: only what the verifier accepts
//!                               ├▶ modules   where its variables lie
//!                               └▶ lanes     streams: in order for the tenant, with no other
//!                                    ├▶ chains    launches that one call puts in
//!                                    ├▶ quiet     quiescence, in which code is loaded
//!                                    ├▶ turns     how much is in flight beside others
//!                                    └▶ progress  whose kernels keep others from running
//! ```
//!
//! * **One context.** Each tenant has a partition of its addresses; fences keep
//!   its kernels there (`model::layout::fence`), and the manager its copies and
//!   memsets.
//! * **One thread a tenant.** No request waits for a kernel, so a tenant delays
//!   nobody: what must wait is answered with `Busy`. What a driver does only when
//!   no kernel runs, is done at such times (`quiet`).
//! * **Nothing stays.** When a connection ends, in whatever state, the tenant's
//!   memory, streams and modules go, as soon as its last kernel is over. Until
//!   then its partition is nobody else's. Memory is cleared before a tenant gets
//!   it.
//!
//! A request is hostile: each number in it is looked up in the tenant's own
//! tables, and each range is compared with the tenant's own allocations, before
//! the device sees it. This crate must never pass an address or a handle on that
//! it has not found there.

mod addresses;
mod admin;
mod blocks;
mod budget;
mod chains;
mod common;
mod compile;
mod confine;
mod control;
mod descriptors;
mod device;
mod fair;
mod lanes;
mod leaving;
mod log;
mod memory;
mod metrics;
mod modules;
mod numbers;
mod options;
mod ownership;
mod partition;
mod progress;
mod quiet;
mod quota;
mod remains;
mod server;
mod session;
mod slices;
mod sockets;
mod staged;
mod streams;
mod supervisor;
mod tenants;
mod threads;
mod trials;
mod turns;
mod weights;

pub use compile::{CompileLimits, Worker, work};
pub use device::{DeviceChoice, OpenError};
pub use log::{LogFormat, line as log_line, set_log_format};
pub use metrics::MetricsAddress;
pub use options::{Options, StallTime, StartError};
pub use quota::{QUEUED, Quota, TENANTS, Waits};
pub use server::Server;
pub use supervisor::{Ended, supervise, work_for};
pub use weights::HEAVIEST;
