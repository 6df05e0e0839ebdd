//! The runtime over a fake device: what was written to the device, and what comes
//! out when it leaves records.

mod canaries;
mod coverage;
mod failures;
pub(crate) mod fake;
mod findings;
mod frees;
mod gathered;
mod launch;
mod none_at_all;
mod pages;
mod placed;
mod repeats;
mod watch;
