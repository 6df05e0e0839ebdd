//! What instrumentation is asked for, and what it hands over.

use crate::parameters::ParameterSlot;
use analysis::{Lost, Program};
use std::fmt;

/// What to instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which accesses are checked against their bounds; the others stay as they are.
    pub checked: model::Checked,
    /// A thread that fails a check leaves its record and traps there, before
    /// the access.
    pub trap: bool,
}

/// An instrumented module.
#[derive(Clone, Debug)]
pub struct Instrumented {
    /// The PTX.
    pub text: String,
    /// Names the module in device records: a hash of the source, never zero.
    pub tag: u64,
    /// All access sites; `sites[i].id` is `i + 1`.
    pub sites: Vec<model::AccessSite>,
    /// The sites that are checked by their address alone, and why their roots
    /// are not known.
    pub lost: Vec<(model::SiteId, Lost)>,
    /// One plan for each `.entry` with a body, in text order.
    pub entries: Vec<EntryPlan>,
    /// Variables in global memory that the module defines. The host must find
    /// their addresses when the module is loaded (the driver knows those
    /// without linkage by name, too) and register them: pointers that appear on
    /// the device are looked up by address, and a variable that is not registered would be
    /// an invalid pointer to them.
    pub variables: Vec<DeviceVariable>,
    /// Code of the module, original kernels included, allocates on the device
    /// heap, which must be there before any of it runs.
    pub uses_device_heap: bool,
    /// Code that carries checks calls itself, or through pointers: the driver
    /// cannot tell how much stack a thread needs, and takes the context's limit
    /// (`CU_LIMIT_STACK_SIZE`), which the program chose for frames that carry
    /// none.
    pub stack_is_unknown: bool,
    /// A function of the CUDA device runtime that the module calls and does not
    /// define. The driver compiles such PTX, but does not link it with the
    /// library (libcudadevrt) that defines the function.
    pub device_runtime: Option<String>,
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
    /// Name of the checked copy; `None` if nothing can be checked in the kernel
    /// itself and in the functions that it calls by name. (Others that it calls
    /// are checked all the same.)
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

/// Why no launch of a kernel can be proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What stands in the way.
    pub reason: Reason,
    /// The line of the PTX it is on, from 1, where it has one.
    pub line: Option<u32>,
}

/// What stands in the way of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing: there is no check to make.
    NoChecks,
    /// The address depends on what memory holds, or on arithmetic that is not
    /// followed.
    Address,
    /// The buffer is known to the device only.
    Buffer,
    /// The number of bytes is known to the device only.
    Extent,
    /// An access that cannot be checked either.
    Unchecked,
    /// A function is called that has checks of its own, or is not known.
    Call,
    /// The launch parameter does not fit, so that the host does not look for
    /// the buffers.
    Parameters,
    /// The arithmetic is too long.
    Size,
}

impl Reason {
    /// For people; goes on after "because".
    pub fn text(self) -> &'static str {
        match self {
            Reason::NoChecks => "it has no checks",
            Reason::Address => "an address depends on data, or on arithmetic that is not followed",
            Reason::Buffer => "a pointer is found on the device only",
            Reason::Extent => "the size of an access is known on the device only",
            Reason::Unchecked => "an access cannot be checked",
            Reason::Call => "it calls functions that have checks of their own",
            Reason::Parameters => "its parameters leave no room for bounds",
            Reason::Size => "its arithmetic is too long",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} (PTX line {line})", self.reason.text()),
            None => f.write_str(self.reason.text()),
        }
    }
}
