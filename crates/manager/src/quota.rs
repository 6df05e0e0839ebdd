//! What one tenant may have at most, besides memory.

/// Streams.
pub(crate) const STREAMS: usize = 256;
/// Events.
pub(crate) const EVENTS: usize = 16 << 10;
/// Modules.
pub(crate) const MODULES: usize = 512;
/// Kernels in all modules.
pub(crate) const KERNELS: usize = 32 << 10;
/// Allocations, with the variables of modules.
pub(crate) const ALLOCATIONS: usize = 64 << 10;
/// Bytes of a module's code, as the tenant sends it and as PTX text.
pub(crate) const CODE: u64 = 64 << 20;
/// Bytes of local memory for each thread of a kernel. Devices reserve them for
/// all threads that they can run, for all tenants together: 17 GB on an H200.
pub(crate) const LOCAL: u64 = 64 << 10;
/// Launches, copies and memsets that are in one stream and not known to be over.
/// A driver's queue holds about 1,024; when it is full, the driver makes its
/// caller wait. Requests without a reply may go beyond it by
/// [`protocol::QUIET_IN_A_ROW`].
pub(crate) const QUEUED: u32 = 512;
/// Tenants at a time.
pub(crate) const TENANTS: usize = 64;
/// Connections at a time, with those that have not said who they are.
pub(crate) const CONNECTIONS: usize = 2 * TENANTS;
/// Tenants of a slice at a time.
pub(crate) const SLICE_TENANTS: u32 = 8;
/// Connections at a time to the socket of a slice.
pub(crate) const SLICE_CONNECTIONS: usize = 16;
