//! The CUDA runtime API over the driver API, for devices where NVIDIA's own
//! runtime cannot run (it verifies the driver that it talks to).
//!
//! Programs reach these functions in one of two ways: through the forwarding
//! libraries `libcudart.so.13` and `.12` ([`forwarding`]), or, with nvcc's
//! default static runtime, through jumps written over the entry points of the
//! runtime in the executable ([`redirect`]). Types, signatures and names are
//! generated from NVIDIA's headers and library ([`generated`]); every function
//! that is implemented is checked against its generated signature by the
//! compiler, and every other one fails with its name.
//!
//! This crate must never call anything but the driver table it was given, so
//! that all of the program's work passes Ringfence's hooks, and must never be
//! used over a real NVIDIA driver, where the program keeps its own runtime.

#![allow(
    non_snake_case,
    non_camel_case_types,
    reason = "names of CUDA's headers"
)]

#[macro_use]
mod macros;

pub mod api;
mod convert;
mod error;
pub mod forwarding;
pub mod generated {
    //! What NVIDIA's headers and library declare; written by `cargo xtask generate`.
    #[rustfmt::skip]
    pub mod errors;
    #[rustfmt::skip]
    pub mod names;
    #[rustfmt::skip]
    pub mod signatures;
    #[rustfmt::skip]
    pub mod types;
}
mod opened;
pub mod redirect;
mod registry;
mod state;
mod stub;
mod table;
mod twelve;

pub use opened::redirect_opened;
pub use redirect::{RedirectError, Redirected, redirect_static};
pub use state::install;
pub use table::{Version, lookup, lookup_version};
