//! The CUDA driver API declared once, the [`Driver`] trait, and its `gpu`
//! implementation over the real libcuda.

mod device;
mod host_mapping;

pub use device::{Driver, DriverError};
pub use host_mapping::HostMapping;
