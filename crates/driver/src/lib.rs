//! The CUDA driver API declared once, the [`Driver`] trait, and its `gpu`
//! implementation over the real libcuda.
//!
//! [`sys`] is generated from the headers of the pinned toolchain; whatever
//! else needs the list of functions (exports, hooks, the CPU device, tests)
//! derives it from there. This crate must never keep state of the program:
//! that is the runtime's.

mod api;
pub mod arguments;
pub mod calls;
mod capture;
pub mod core_dump;
mod device;
mod end;
mod failure;
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::too_many_lines,
    reason = "names and layout are those of cuda.h, whose reference manual documents them"
)]
mod generated;
pub mod gpu;
pub mod graphs;
mod host_mapping;
pub mod image;
pub mod linked;
pub mod pools;
pub mod resolver;
mod support;

/// Types and constants of cuda.h, under their C names.
pub mod sys {
    pub use crate::generated::constants::*;
    pub use crate::generated::enums::*;
    pub use crate::generated::types::*;
}

pub use capture::CaptureMode;
pub use device::{Driver, DriverError, Element, Release, ReleaseCall, Store};
pub use end::end_process;
pub use failure::{DeviceFailure, FailedKernel, FailedThread, describe, kernel_error};
pub use generated::api::{Api, COUNT, FUNCTIONS, index};
pub use generated::extra::{EXTRA, extra_index};
pub use generated::signatures;
pub use host_mapping::HostMapping;
pub use support::{StreamEvent, SupportKernel, SupportLaunch, SupportModule, SupportStream};
