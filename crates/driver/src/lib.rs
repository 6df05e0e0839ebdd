//! The CUDA driver API declared once, the [`Driver`] trait, and its `gpu`
//! implementation over the real libcuda.

mod device;

pub use device::{Driver, DriverError, HostMapping};
