//! Reads and writes CUDA fat binaries: the containers that nvcc puts into a
//! program's `.nv_fatbin` section and hands to the driver at run time.
//!
//! The input is hostile: lengths may lie and payloads may be bombs. Reading
//! never panics, never reads outside the bytes given, and never holds more
//! than the caller's limit of decompressed data. The format is not documented
//! by NVIDIA; what is written here was measured on fat binaries of nvcc 12
//! and 13.

mod error;
mod format;
mod part;
mod payload;
mod read;
mod select;
mod write;

pub use error::Error;
pub use format::{
    CONTAINER_HEADER_SIZE, CONTAINER_MAGIC, Compression, Kind, Target, WRAPPER_MAGIC,
};
pub use part::ModulePart;
pub use read::{Entry, container_size, parse};
pub use select::{best_elf, best_ptx, is_device_runtime};
pub use write::{NewEntry, write};
