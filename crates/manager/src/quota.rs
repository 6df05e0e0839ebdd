//! What one tenant may have at most.

/// What one tenant may have at most. Nothing here is checked against what the
/// device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of device memory; rounded up to 64 MiB.
    pub memory: u64,
    /// Tenants at a time that the same user has.
    pub tenants: usize,
    /// Streams, besides the default one.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules.
    pub modules: usize,
    /// Kernels in all modules.
    pub kernels: usize,
    /// Allocations, with the variables of modules.
    pub allocations: usize,
    /// Bytes of a module's code, as the tenant sends it and as PTX text.
    pub code: u64,
    /// Launches, copies and memsets that are in one stream and not known to be
    /// over. Requests without a reply may go beyond it by
    /// [`protocol::QUIET_IN_A_ROW`].
    pub queued: u32,
    /// Which kernels run, whose threads wait for each other.
    pub waits: Waits,
    /// How many parts of the device's time it gets where tenants of different weights
    /// have work, from 1 to [`crate::HEAVIEST`].
    pub weight: u32,
}

/// Which kernels run, whose threads wait in hardware for lanes of their warp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// All. On a GPU, threads that wait for each other for ever cannot be ended.
    #[default]
    Any,
    /// Those that are proved to end.
    Proved,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota {
            memory: 256 << 20,
            tenants: TENANTS,
            streams: 256,
            events: 16 << 10,
            modules: 512,
            kernels: 32 << 10,
            allocations: 64 << 10,
            code: 64 << 20,
            queued: QUEUED,
            waits: Waits::Any,
            weight: 1,
        }
    }
}

/// Bytes of local memory for each thread of a kernel. Devices reserve them for
/// all threads that they can run, for all tenants together: 17 GB on an H200.
pub(crate) const LOCAL: u64 = 64 << 10;
/// A driver's queue holds about 1,024 launches, copies and memsets; when it is
/// full, the driver makes its caller wait. So no stream has more than this. (Of chains of
/// up to three launches the queue holds 1,021, too, of those of sixteen 231, which are
/// 3,696 launches: H200, driver 580.)
pub const QUEUED: u32 = 512;
/// Addresses that initializers of one module hold: each is written while no kernel
/// of any tenant runs.
pub(crate) const RELOCATIONS: usize = 64 << 10;
/// Tenants at a time.
pub const TENANTS: usize = 64;
/// Connections at a time, with those that have not said who they are.
pub(crate) const CONNECTIONS: usize = 2 * TENANTS;
/// Tenants of a slice at a time.
pub(crate) const SLICE_TENANTS: u32 = 8;
/// Connections at a time to the socket of a slice.
pub(crate) const SLICE_CONNECTIONS: usize = 16;
