//! What Ringfence does when a program loads, allocates, launches, synchronizes
//! and exits.
//!
//! The shim calls [`Runtime`] from its hooks, before or after it passes the
//! program's call on. Handles are plain numbers, C memory is read by the shim:
//! nothing here is unsafe. No lock is held while a driver function runs,
//! because the driver may call back into the program; work that must not
//! interleave goes through a `turn::Turn` instead.

mod canaries;
mod copies;
mod deep_stacks;
mod device_heap;
mod drain;
mod findings;
mod frees;
mod functions;
mod heap_canaries;
mod host_calls;
mod judge;
mod kernel;
mod launches;
mod maps;
mod memory;
mod metadata;
mod modules;
mod parts;
mod plan;
mod prepare;
mod proof;
mod recent;
mod runtime;
mod seen;
mod spaces;
mod streams;
mod ticket;
mod turn;
mod watch;
mod watcher;
mod window;

pub use canaries::{CanaryPlan, Fill, Where};
pub use copies::{Position, Shape, Touched};
pub use findings::HostError;
pub use frees::{FreeCall, FreeRequest};
pub use heap::{Around, Layer, Owner, PartError};
pub use host::{settings_from_environment, write_stderr};
pub use host_calls::{CallDecision, Doubt, Effect, Place, Side, When};
pub use instrument::{EntryPlan, LaunchShape, ParameterSlot};
pub use kernel::{Kernel, Resolved};
pub use launches::{LaunchDecision, LaunchParameter};
pub use modules::Modules;
pub use plan::{ModulePart, ModulePlan, Prepared};
pub use runtime::{Belongs, Runtime, StartError};
pub use streams::{Ordering, StreamName, StreamUse};
pub use ticket::{LaunchRequest, Ticket};
pub use watch::{Entered, Paused, Waits, WatchedLaunch, Watching};

#[cfg(test)]
mod tests;
