//! What the administrator asks a manager, over a socket of its own beside the one of
//! the tenants: one request and one reply for each connection.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What the administrator asks. Both sides have the same [`crate::VERSION`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminRequest {
    /// [`crate::MAGIC`]
    pub magic: [u8; 8],
    /// [`crate::VERSION`]
    pub version: u32,
}

/// What the manager answers; if it refuses, why, for people.
pub type AdminReply = Result<Overview, String>;

/// What a manager has done since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overview {
    /// The device's name.
    pub device: String,
    /// Seconds since the manager was started.
    pub uptime_seconds: u64,
    /// Partitions that are taken.
    pub partitions_taken: u64,
    /// Partitions that there are.
    pub partitions: u64,
    /// Sums over all tenants that there were.
    pub totals: Totals,
    /// Those that are there.
    pub tenants: Vec<TenantRow>,
}

/// Sums over all tenants that there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Tenants that were admitted.
    pub admitted: u64,
    /// Connections that were not.
    pub not_admitted: u64,
    /// Kernels that were launched, all of them fenced.
    pub launches: u64,
    /// Faults of kernels that were contained: traps, assertions, and kernels that
    /// were ended.
    pub faults: u64,
    /// Requests that were refused because of a quota or by the verifier.
    pub refusals: u64,
    /// Modules that were compiled.
    pub compiled: u64,
    /// Modules whose result was there already.
    pub cached: u64,
    /// Modules that could not be compiled.
    pub not_compiled: u64,
    /// What is kept on disk.
    pub store: StoreTotals,
}

/// Of compiled modules that are kept on disk; zeros where none are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreTotals {
    /// Modules that were there.
    pub found: u64,
    /// Modules that were not.
    pub missing: u64,
    /// Files that were damaged, and were removed.
    pub damaged: u64,
    /// Files that were written.
    pub written: u64,
    /// Files that could not be written.
    pub not_written: u64,
    /// Files that had to go for others.
    pub evicted: u64,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRow {
    /// Its number, which no other one gets.
    pub tenant: u64,
    /// Its process, if it has a number in the manager's namespace.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: u32,
    /// The name of its program, as it says itself.
    pub program: String,
    /// Bytes of device memory that it has allocated, with the variables of modules.
    pub memory: u64,
    /// Bytes that it may have.
    pub memory_limit: u64,
    /// How many parts of the device's time it gets beside others.
    pub weight: u64,
    /// Kernels that are loaded, all of them fenced.
    pub kernels: u64,
    /// Kernels that were launched.
    pub launches: u64,
    /// As [`Totals::faults`].
    pub faults: u64,
    /// As [`Totals::refusals`].
    pub refusals: u64,
    /// Seconds since it was admitted.
    pub age_seconds: u64,
}

/// Where the administrator connects to the manager whose tenants connect to `socket`.
pub fn admin_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".admin");
    path.into()
}
