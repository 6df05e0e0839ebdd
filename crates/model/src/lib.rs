//! The vocabulary of Ringfence: ids, access sites, allocations, findings,
//! coverage, settings, and the one declaration of every record and address
//! that host and device share.
//!
//! No I/O, no policy, no dependency on any other Ringfence crate.

mod access;
mod checked;
mod coverage;
pub mod exit_code;
mod finding;
pub mod layout;
mod memory;
pub mod printed;
pub mod printf;
pub mod settings;
mod times;

pub use access::{
    AccessKind, AccessSite, Neighbour, Provenance, SiteId, SourceLocation, Space, StaticObject,
};
pub use checked::Checked;
pub use coverage::{
    BareReason, CanaryCoverage, Coverage, ElsewhereReason, KernelCoverage, Note, PagesCoverage,
    ShadowCoverage, UncheckedReason,
};
pub use finding::{
    DeviceAccess, Failure, Finding, HostCall, HostFrame, KernelArgument, KernelRun,
    NearestAllocation, Overwritten, Relation, Rule, RunningKernel, Stopped, Subject,
    ThreadCoordinates, Watched,
};
pub use memory::{Allocation, AllocationKind, DeviceAddress, Extent};
pub use settings::{
    ApiErrors, CanaryChecker, CanaryPattern, DeviceKind, LeakCheck, MemoryBudget, PagesPlace,
    Protections, Prove, Settings, SettingsError, ShadowLoads,
};
pub use times::{
    Durations, KernelTimes, LaunchTimes, ProcessTimes, Ran, TIMES_SUFFIX, TIMES_VERSION, TimesFile,
};
