//! Device memory that processes take before they have asked for any.

use super::Sharing;
use super::host::{Host, Way};
use super::together::Together;
use crate::options::memory_used;
use anyhow::Result;

/// How many processes.
pub const COUNTS: [usize; 2] = [4, 16];

/// The memory of a tenant's own, in MiB, which does not count.
const OWN: u64 = 64;

/// MiB that so many processes take, each with a kernel launched and no memory of
/// its own; with the manager, or the service, that they need.
///
/// # Errors
///
/// One of them fails, or there is no nvidia-smi.
pub fn measure(sharing: &Sharing, way: Way, count: usize) -> Result<u64> {
    let before = memory_used()?;
    let host = Host::start(sharing, way, &format!("{OWN}m"))?;
    let commands = (0..count).map(|_| host.command("idle")).collect();
    let together = Together::start(commands, sharing.places.timeout());
    let together = together.map_err(|error| host.explain(error))?;
    let taken = memory_used()?.saturating_sub(before);
    together.finish()?;
    Ok(match way {
        Way::Tenants => taken.saturating_sub(OWN * count as u64),
        Way::TimeSlicing | Way::Mps => taken,
    })
}
