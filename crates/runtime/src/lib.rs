//! What Ringfence does when a program loads, allocates, launches, synchronizes
//! and exits.
//!
//! The shim calls [`Runtime`] from its hooks, before or after it passes the
//! program's call on. Handles are plain numbers, C memory is read by the shim:
//! nothing here is unsafe. No lock is held while a driver function runs,
//! because the driver may call back into the program; work that must not
//! interleave goes through a `turn::Turn` instead.

mod allocations;
mod bounds;
mod canaries;
mod checked_copies;
mod deep_stacks;
mod device_heap;
mod ending;
mod env;
mod failures;
mod findings;
mod frees;
mod functions;
mod guarded;
mod host_calls;
mod host_waits;
mod judge;
mod kernel;
mod launcher;
mod launches;
mod live;
mod lookups;
mod maps;
mod memory;
mod metadata;
mod modules;
mod moment;
mod pages;
mod placements;
mod plan;
mod prepare;
mod proof;
mod protection;
mod records;
mod redzones;
mod reporter;
mod request;
mod roots;
mod runtime;
mod seen;
mod shadow;
mod spread;
mod streams;
mod turn;
mod violations;
mod watch;
mod window;

pub use allocations::{Allocations, Belongs};
pub use canaries::{Canaries, CanaryPlan, Fill};
pub use deep_stacks::DeepStacks;
pub use device_heap::DeviceHeap;
pub use ending::Ending;
pub use env::{Env, StartError};
pub use failures::Failures;
pub use frees::{FreeCall, FreeRequest, Frees};
pub use functions::{Build, KernelCopies};
pub use heap::{Layer, Owner, PartError, Redzones};
pub use host::{settings_from_environment, write_stderr};
pub use host_calls::{
    CallDecision, Doubt, Effect, HostCalls, Place, Position, Shape, Side, Touched, When,
};
pub use host_waits::HostWaits;
pub use instrument::{EntryPlan, LaunchShape, ParameterSlot};
pub use kernel::{Kernel, Resolved};
pub use launcher::{Argument, Launcher, Repeat, Ticket};
pub use launches::{Made, undecided};
pub use modules::Modules;
pub use moment::moment_over;
pub use placements::Placements;
pub use plan::{ModulePart, ModulePlan, Prepared};
pub use protection::{Placement, PlacementRequest};
pub use redzones::Surroundings;
pub use request::{LaunchDecision, LaunchParameter, LaunchRequest};
pub use runtime::Runtime;
pub use streams::{Ordering, StreamName, StreamUse, Streams, Where};
pub use watch::{Entered, Paused, Waits, Watch, WatchedLaunch};

#[cfg(test)]
mod tests;
