//! Passes from PTX to PTX that add memory-safety checks, and the verifier of
//! their output.
//!
//! [`instrument`] runs the `bounds` pass: originals of kernels stay in the
//! module byte for byte, each followed by a checked copy; device functions
//! are checked in place. Calls of device-side `malloc` and `free` go to a heap
//! of our own, in originals, too. [`verify`] judges the output without trusting the
//! pass. `model::layout` declares every address and name that the output
//! shares with the host.

mod bounds;
mod device_heap;
mod error;
mod parameters;
mod patch;
mod sites;
mod support;
mod verify;

pub use analysis::{Input, LaunchShape, Program};
pub use bounds::{Obstacle, Reason};
pub use error::Error;
pub use parameters::ParameterSlot;
pub use verify::{VerifyError, verify};

/// What to instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {}

/// An instrumented module.
#[derive(Clone, Debug)]
pub struct Instrumented {
    /// The PTX.
    pub text: String,
    /// Names the module in device records: a hash of the source, never zero.
    pub tag: u64,
    /// All access sites; `sites[i].id` is `i + 1`.
    pub sites: Vec<model::AccessSite>,
    /// One plan for each `.entry` with a body, in text order.
    pub entries: Vec<EntryPlan>,
    /// Variables in global memory that the module defines. The host must find
    /// their addresses when the module is loaded (the driver knows those
    /// without linkage by name, too) and register them: device functions look
    /// bounds up by address, and a variable that is not registered would be
    /// an invalid pointer to them.
    pub variables: Vec<DeviceVariable>,
    /// Code of the module, original kernels included, allocates on the device
    /// heap, which must be there before any of it runs.
    pub uses_device_heap: bool,
}

/// A variable of a module, in global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceVariable {
    /// Name, as in the PTX.
    pub name: String,
    /// Bytes.
    pub size: u64,
}

/// What the host must know to launch a kernel with checks.
#[derive(Clone, Debug)]
pub struct EntryPlan {
    /// Mangled name.
    pub name: String,
    /// Name of the checked copy; `None` if nothing in the kernel itself can
    /// be checked. (Functions that it calls are checked all the same.)
    pub checked_name: Option<String>,
    /// The program's own parameters.
    pub parameters: Vec<ParameterSlot>,
    /// Bytes of the program's own parameter block.
    pub parameter_bytes: u32,
    /// Place of [`model::layout::LAUNCH_PARAMETER`] in the parameter block of
    /// the checked copy; `None` in lookup mode or if there is no copy.
    pub launch_parameter: Option<ParameterSlot>,
    /// Byte offsets, in the parameter block, of the pointers whose bounds the
    /// launch parameter carries, in its order.
    pub roots: Vec<u32>,
    /// Number of access sites by kind of check, in the kernel and in the
    /// functions that it calls directly.
    pub coverage: model::KernelCoverage,
    /// The kernel may call the driver's own device-side `malloc`, whose blocks
    /// nobody can see: calls in the module could not be redirected.
    pub uses_device_malloc: bool,
    /// What shows, at a launch, that all its accesses are in bounds; or why
    /// nothing can.
    pub proof: Result<Program, Obstacle>,
}

/// Adds bounds checks to a PTX module.
///
/// # Errors
/// If the module cannot be parsed, is not 64-bit, or is instrumented already.
pub fn instrument(source: &str, options: &Options) -> Result<Instrumented, Error> {
    let Options {} = options;
    bounds::instrument(source)
}
